// ---- summaries of recordings ------------------------------------------------------------------

function makeOverview(recording) {
  return make("section", "", run.recordings.length > 1 ? make("h2", "", recording.name) : null, listTold(recording.overview));
}

const MOST_OVERVIEWS = 6;

function drawOverview() {
  const told = run.recordings.filter((recording) => recording.overview.length);
  if (!told.length) return;
  $("overview").hidden = false;
  $("overview").append(...told.slice(0, MOST_OVERVIEWS).map(makeOverview));
  if (told.length <= MOST_OVERVIEWS) return;
  const rest = make("details", "", make("summary", "", `${plural(told.length - MOST_OVERVIEWS, "more recording")}`));
  rest.append(...told.slice(MOST_OVERVIEWS).map(makeOverview));
  $("overview").append(rest);
}

// ---- lanes: one row per sound over the whole recording ---------------------------------------------------

const fromTo = (start, end) => (clock(start) === clock(end) ? clock(start) : `${clock(start)} – ${clock(end)}`);
const MOST_LANES = 8;
const LANE_NAMES = { said: "Speech in words", read: "Text in the picture", seen: "Objects" };

function makeLanes(recording) {
  const lanes = new Map();
  for (const entry of recording.evidence) {
    const name = entry[2] === "heard" ? entry[3].split(/,(?![^(]*\))/)[0] : LANE_NAMES[entry[2]];
    if (!lanes.has(name)) lanes.set(name, []);
    lanes.get(name).push(entry);
  }
  const lasts = (entries) => entries.reduce((sum, [start, end]) => sum + end - start, 0);
  const isFromPicks = (entries) => entries[0][2] === "read" || entries[0][2] === "seen";
  const shown = [...lanes].sort(([, a], [, b]) =>
    isFromPicks(a) - isFromPicks(b) || b.length - a.length || lasts(b) - lasts(a)).slice(0, MOST_LANES);
  const list = make("div", "lanes", ...shown.map(([name, entries]) => makeLane(recording, name, entries)));
  list.hidden = !shown.length;
  return list;
}

function makeLane(recording, name, entries) {
  const track = make("div", "track", ...entries.map((entry) => {
    const [start, end, , text, sure] = entry, bar = button("", "", () => play(recording, start));
    bar.tabIndex = -1; // keyboard users have the list of moments
    bar.title = `${fromTo(start, end)} ${text} (${Math.round(100 * sure)} %)`;
    bar.style.left = `${(100 * start) / recording.duration}%`;
    bar.style.width = `${(100 * (end - start)) / recording.duration}%`;
    entry.bar = bar;
    return bar;
  }));
  return make("div", "lane", make("div", "name", name), track);
}

// ---- moments: found by words in captions, tags and evidence; overlapping hits form one moment ----

const MOST_MOMENTS = 200, MOST_SAID = 4;
const MOMENT_KINDS = ["caption", "heard", "said", "read", "seen", "tags"];

const holdsWords = (pick, query) => holdsAll(query, (pick.words ??= [wordsOf(pick.caption || ""), wordsOf(pick.tags.join(" "))]));

/** Entries and picks that contain all words of the query: start and end in seconds, kind and text. */
function findHits(recording, query) {
  const entries = recording.evidence.filter((entry) => holdsAll(query, [(entry.words ??= wordsOf(entry[3]))]));
  const windows = recording.picks.filter((pick) => holdsWords(pick, query));
  return [...entries.map((entry) => ({ start: entry[0], end: entry[1], kind: entry[2], text: entry[3], sure: entry[4], entry })),
    ...windows.map(({ start, end, caption, tags, words }) => query.some((phrase) => isIn(phrase, words.slice(0, 1)))
      ? { start, end, kind: "caption", text: caption } : { start, end, kind: "tags", text: tags.join(", ") })];
}

/** The hits grouped into moments; tags count only where nothing else is found. */
function asMoments(hits) {
  const groups = [];
  let end = -Infinity, ends = new Map(); // the same text in adjacent windows is one moment too
  for (const hit of hits.sort((a, b) => a.start - b.start || a.end - b.end)) {
    const said = `${hit.kind} ${hit.text}`;
    if (hit.start >= end && !(ends.get(said) >= hit.start)) {
      groups.push([]);
      [end, ends] = [hit.end, new Map()];
    }
    groups.at(-1).push(hit);
    end = Math.max(end, hit.end);
    ends.set(said, hit.end);
  }
  return groups.map((own) => {
    const told = own.filter(({ kind }) => kind !== "tags"), telling = told.length ? told : own;
    return { start: Math.min(...telling.map((hit) => hit.start)), end: Math.max(...telling.map((hit) => hit.end)), telling,
      kinds: MOMENT_KINDS.filter((kind) => telling.some((hit) => hit.kind === kind)) };
  });
}

/** The spans in order of time, overlapping ones joined. */
function union(spans) {
  const joined = [];
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (joined.length && start < joined.at(-1)[1]) joined.at(-1)[1] = Math.max(end, joined.at(-1)[1]);
    else joined.push([start, end]);
  }
  return joined;
}

/** Whether a window overlaps any of the spans of a union. */
function touches(spans, { start, end }) {
  let low = 0, high = spans.length; // binary search for the first that ends after the window begins
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][1] <= start) low = middle + 1; else high = middle;
  }
  return low < spans.length && spans[low][0] < end;
}

/** Finds the moments of a recording, none for an empty query, and lists those with evidence; cards show the others. */
function findMoments(recording, query) {
  const hits = query.length ? findHits(recording, query) : [];
  recording.moments = asMoments(hits);
  recording.entries = hits.map(({ entry }) => entry).filter(Boolean);
  recording.told = union(recording.entries);
  const found = new Set(recording.entries);
  for (const entry of recording.evidence) entry.bar?.classList.toggle("found", found.has(entry));
  const listed = recording.moments.filter(({ telling }) => telling.some(({ entry }) => entry));
  recording.momentList.replaceChildren(...listed.slice(0, MOST_MOMENTS).map((moment) => makeMoment(recording, moment, query)));
}

function makeMoment(recording, { start, end, telling, kinds }, query) {
  const moment = button("", make("b", "", fromTo(start, end)), () => play(recording, start));
  for (const kind of kinds) {
    const own = new Map(telling.filter((hit) => hit.kind === kind).map((hit) => [hit.text, hit]));
    const line = make("span", "line", `${kind}: `);
    for (const [place, { text, sure }] of [...own.values()].slice(0, MOST_SAID).entries()) {
      const said = make("span");
      highlight(said, text, query);
      line.append(place ? "; " : "", said, sure === undefined ? "" : ` (${Math.round(100 * sure)} %)`);
    }
    if (own.size > MOST_SAID) line.append(`; … and ${own.size - MOST_SAID} more`);
    moment.append(line);
  }
  return make("li", "", moment);
}
