// ---- what happened, in words ------------------------------------------------------------------

function makeOverview(recording) {
  const list = make("dl");
  for (const [place, [heading, said]] of recording.overview.entries()) {
    const isLong = heading === "Activities" || heading === "Heard";
    const told = isLong ? make("ul", "", ...said.map((each) => make("li", "", each))) : said.join(", ");
    list.append(make("dt", "", heading), make("dd", place || isLong ? "" : "lead", told));
  }
  return make("section", "", run.recordings.length > 1 ? make("h2", "", recording.name) : null, list);
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

// ---- lanes: a row a sound over the whole time ---------------------------------------------------

const MOST_LANES = 8;
const LANE_NAMES = { said: "Speech in words", read: "Text in the picture", seen: "Objects" };

function makeLanes(recording) {
  const lanes = new Map();
  for (const entry of recording.evidence) {
    const name = entry[2] === "heard" ? entry[3] : LANE_NAMES[entry[2]];
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
    const [start, end, , text, sure] = entry, bar = make("button");
    bar.type = "button";
    bar.tabIndex = -1; // the list of moments is for the keyboard
    bar.title = `${clock(start)} – ${clock(end)} ${text} (${sure})`;
    bar.style.left = `${(100 * start) / recording.duration}%`;
    bar.style.width = `${(100 * (end - start)) / recording.duration}%`;
    bar.addEventListener("click", () => play(recording, start));
    entry.bar = bar;
    return bar;
  }));
  return make("div", "lane", make("div", "name", name), track);
}

// ---- moments: what was heard, said, read or seen, found by words --------------------------------

const MOST_MOMENTS = 200;

/** Those that hold all the words; none where nothing is looked for. */
function findMoments(recording, query) {
  recording.moments = query.length ? recording.evidence.filter((entry) => holdsAll(query, [(entry.words ??= wordsOf(entry[3]))])) : [];
  const found = new Set(recording.moments);
  for (const entry of recording.evidence) entry.bar?.classList.toggle("found", found.has(entry));
  recording.momentList.replaceChildren(...recording.moments.slice(0, MOST_MOMENTS).map((entry) => {
    const [start, end, kind, text, sure] = entry, said = make("span");
    highlight(said, text, query);
    const button = make("button", "", make("b", "", `${clock(start)} – ${clock(end)}`), `${kind}: `, said, ` (${sure})`);
    button.type = "button";
    button.addEventListener("click", () => play(recording, start));
    return make("li", "", button);
  }));
}
