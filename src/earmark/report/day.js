// The day on one screen: when work went on, what it was, what is worth a look, cost and gaps.
import { button, clock, lasting, make, plural, timeOfDay } from "./parts.js";
import { fromTo, listMoments } from "./moments.js";

const TICKS = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600];
const MOST_ROWS = 14, MOST_TICKS = 9;

/** The day as an element; `host` as in moments.js, and `search(words)` to list the moments of a sound. */
export function makeDay(day, host) {
  const parts = [makeRibbon(day, host)];
  if (day.paragraph) parts.unshift(makeParagraph(day.paragraph, host));
  const what = day.lines.length ? make("section", "what", make("h2", "", "What it was"), makeLines(day.lines, host)) : null;
  parts.push(make("div", "day-columns", what, makeFacts(day, host)));
  if (day.moments.length) parts.push(make("section", "look", make("h2", "", "Worth a look"), listMoments(day.moments, host, { name: "Worth a look" })));
  const section = make("section", "day", ...parts);
  section.setAttribute("aria-label", "The day");
  return section;
}

/** Sentences of a model, each with links to the moments it cites. */
export function makeParagraph({ sentences }, host) {
  const cite = ({ moment }) => {
    const link = make("a", "cite", timeOfDay(moment.began, moment.start) || clock(moment.start));
    link.href = host.link(moment);
    link.title = `${moment.name} ${fromTo(moment.start, moment.end)}: ${moment.reasons[0].text}`;
    if (host.isHere) link.dataset.link = "";
    return link;
  };
  return make("p", "paragraph", ...sentences.flatMap(({ text, citations }) => [text, ...citations.flatMap((one) => [" ", cite(one)]), " "]));
}

// ---- when work went on ----------------------------------------------------------------------

const wall = (began) => Date.parse(`${began.slice(0, 19)}Z`) / 1000;

/** Rows of recordings on one scale: a row for each date by the clock, or one for each recording without a clock. */
function layOutDays(recordings) {
  const rows = new Map();
  for (const recording of recordings) {
    const { began, name, duration } = recording;
    const key = began ? began.slice(0, 10) : name, from = began ? wall(began) - wall(`${key}T00:00:00`) : 0;
    if (!rows.has(key)) rows.set(key, []);
    rows.get(key).push({ ...recording, from, to: from + duration });
  }
  const all = [...rows.values()].flat(), begin = Math.min(...all.map((each) => each.from)), end = Math.max(...all.map((each) => each.to));
  const step = TICKS.find((each) => (end - begin) / each <= MOST_TICKS) || 43200;
  const start = Math.floor(begin / step) * step;
  return { rows: [...rows].sort(([a], [b]) => (a < b ? -1 : 1)), start, length: Math.max(1, end - start), step };
}

function makeRibbon(day, host) {
  if (!day.recordings.length) return make("p", "none", "This run has no recordings yet.");
  const { rows, start, length, step } = layOutDays(day.recordings), isClock = Boolean(day.title);
  const percent = (time) => `${(100 * (time - start)) / length}%`;
  const place = (element, from, to) => Object.assign(element.style, { left: percent(from), width: `${(100 * (to - from)) / length}%` });
  const drawn = rows.slice(0, MOST_ROWS).map(([key, own]) => {
    const track = make("div", "track");
    for (const recording of own) {
      const bar = linkTo("whole", recording, 0, `${recording.name}, ${lasting(recording.duration)}`, host);
      place(bar, recording.from, recording.to);
      track.append(bar);
      for (const [from, to] of recording.work) {
        const work = linkTo("work", recording, from, `${timeOfDay(recording.began, from) || clock(from)} work in ${recording.name}, ${lasting(to - from)}`, host);
        place(work, recording.from + from, recording.from + to);
        track.append(work);
      }
    }
    return make("div", "ribbon-row", rows.length > 1 || !isClock ? make("span", "name", key) : null, track);
  });
  const axis = make("div", "axis");
  for (let time = Math.ceil(start / step) * step; time < start + length; time += step) {
    const tick = make("span", (time / step) % 2 ? "minor" : "", isClock ? timeOfDay("1970-01-01T00:00:00", time).slice(0, 5) : clock(time));
    tick.style.left = percent(time);
    axis.append(tick);
  }
  const rest = rows.length - drawn.length;
  return make("div", rows.length > 1 || !isClock ? "ribbon named" : "ribbon", ...drawn, axis, rest > 0 ? make("p", "quiet", `and ${plural(rest, isClock ? "more day" : "more recording")}`) : null);
}

function linkTo(kind, recording, start, words, host) {
  const made = make("a", kind);
  made.href = host.link({ ...recording, start });
  if (host.isHere) made.dataset.link = "";
  made.title = words;
  made.setAttribute("aria-label", words);
  return made;
}

// ---- what it was ----------------------------------------------------------------------------

function makeLines(lines, host) {
  const shown = lines.slice(0, 6), most = Math.max(...shown.map((line) => line.seconds));
  return make("ol", "lines", ...shown.map((line) => {
    const bar = make("i", "amount");
    bar.style.width = `${Math.max(1, (100 * line.seconds) / most)}%`;
    const times = line.moments.slice(0, 6).flatMap((moment, place) => {
      const when = make("a", "", timeOfDay(moment.began, moment.start) || `${moment.name} ${clock(moment.start)}`);
      when.href = host.link(moment);
      when.title = `${moment.name} ${fromTo(moment.start, moment.end)}`;
      if (host.isHere) when.dataset.link = "";
      return [place ? ", " : "", when];
    });
    const more = line.count > 6 ? [" ", button("more", `and ${line.count - 6} more`, () => host.search(line.name))] : [];
    return make("li", "", make("p", "line-head", button("sound", line.name, () => host.search(line.name), `Show the moments of ${line.name}`),
      make("span", "quiet", `${line.count}× · ${lasting(line.seconds)}`)), bar, make("p", "times", ...times, ...more),
      line.also.length ? make("p", "quiet also", `also named ${line.also.slice(0, 3).join(", ")}`) : null);
  }));
}

function makeFacts(day) {
  const facts = [["Recorded", `${lasting(day.duration)} in ${plural(day.recordings.length, "recording")}`],
    ["Work", day.active === null ? "not known: there is no sound to estimate it from" : `about ${lasting(day.active)}, by the sound`],
    ["Cost", day.cost], ...day.missing.map((text, place) => [place ? "" : "Missing", text])];
  const found = day.sections.find(([heading]) => heading === "Found");
  if (found) facts.unshift(["Found", found[1].join("; ")]);
  return make("section", "facts", make("h2", "", "At a glance"), make("dl", "", ...facts.flatMap(([name, text]) => [make("dt", "", name), make("dd", "", text)])));
}
