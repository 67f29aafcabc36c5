// ---- the head -----------------------------------------------------------------------------

function drawSpend(sums) {
  const tokens = [sums.prompt_tokens, sums.completion_tokens];
  const sent = `${plural(sums.asked, "call")} sent`;
  if (!sums.spend) return figure("Tokens", whole(tokens[0] + tokens[1]), `${whole(tokens[0])} in · ${sent}`, null);
  return figure("Spend", sums.spend.toFixed(sums.spend < 1 ? 4 : 2), `in the currency of your prices · ${whole(tokens[0] + tokens[1])} tokens · ${sent}`, null);
}

function drawHead() {
  const sums = run.totals;
  fillFrame(run, [plural(sums.recordings, "recording"), lasting(sums.duration),
    !run.plan.model ? null : run.plan.model !== "tags" ? `model ${run.plan.model}` : sums.asked ? null : "no model asked", run.opened.slice(0, 10).replaceAll("-", "\u2011")].filter(Boolean).join(" · "));
  const isAsked = run.plan.model !== "tags" || sums.asked > 0, waiting = sums.picks - sums.answered - sums.failed;
  const state = [sums.failed ? `${whole(sums.failed)} failed` : null, waiting ? `${whole(waiting)} unanswered` : null];
  $("totals").append(
    isAsked ? figure("Calls answered", whole(sums.answered),
      [`of ${whole(sums.windows)} possible, ${percent(sums.answered, sums.windows)}`, ...state].filter(Boolean).join(" · "),
      share(sums.answered, sums.windows))
      : figure("Windows picked", whole(sums.picks), `of ${whole(sums.windows)}, ${percent(sums.picks, sums.windows)} · no model asked`,
        share(sums.picks, sums.windows)),
    foretold(run.coverage),
    figure("Bytes read", size(sums.bytes_read), sums.bytes_read > sums.size_bytes ? `some of ${size(sums.size_bytes)} more than once`
      : `of ${size(sums.size_bytes)}, ${percent(sums.bytes_read, sums.size_bytes)}`,
      share(sums.bytes_read, sums.size_bytes)),
    figure("Frames decoded", whole(sums.frames_decoded),
      [!sums.frame_count ? null : sums.frames_decoded > sums.frame_count ? `some of ${whole(sums.frame_count)} more than once`
        : `of ${whole(sums.frame_count)}, ${percent(sums.frames_decoded, sums.frame_count)}`,
        `${whole(sums.frames_sent)} kept`, run.plan.ask?.blur ? `${plural(sums.faces_blurred, "face")} blurred` : null]
        .filter(Boolean).join(" · "), share(sums.frames_decoded, sums.frame_count)),
    isAsked ? drawSpend(sums) : "");
  if (sums.interrupted) {
    $("totals").append(make("p", "warn",
      `${plural(sums.interrupted, "call")} in flight when a process died may have been asked twice.`));
  }
}

// ---- the picks ----------------------------------------------------------------------------

const strips = [], picks = [];
const shown = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((each) => each.isIntersecting)) {
    const { picture } = entry.target.pick;
    entry.target.src = run.pictures ? run.pictures + picture : `data:image/jpeg;base64,${picture}`;
    shown.unobserve(entry.target);
  }
}, { rootMargin: "800px" });

/** Sets the aspect ratio of all cards to that of the first picture, between 1.2 and 1.8. */
function frameLike(image) {
  const root = document.documentElement;
  if (root.style.getPropertyValue("--shape")) return;
  root.style.setProperty("--shape", String(Math.min(1.8, Math.max(1.2, image.naturalWidth / image.naturalHeight))));
}

function makeShot(recording, pick) {
  const shot = make("div", "shot");
  if (pick.picture) {
    const image = make("img");
    image.alt = `Frame at ${clock(pick.instant)}`;
    image.pick = pick;
    image.addEventListener("load", () => frameLike(image), { once: true });
    shown.observe(image);
    shot.append(image);
  }
  pick.button = make(recording.files.length ? "button" : "span", "when", `${clock(pick.start)} – ${clock(pick.end)}${timeOfDay(recording.began, pick.start).replace(/^(?=.)/, " · ")}`);
  pick.button.tabIndex = 0;
  if (recording.files.length) {
    pick.button.type = "button";
    pick.button.setAttribute("aria-label", `Play ${recording.name} at ${clock(pick.start)}`);
    pick.button.addEventListener("click", () => play(recording, pick.start));
  }
  shot.append(pick.button);
  return shot;
}

function makeCaption(recording, pick) {
  if (pick.failure) return [make("p", "failure", `Failed: ${pick.failure}`)];
  if (pick.caption === null) {
    if (pick.status !== "in flight" && evidenceOf(recording, pick).length) return [];
    return [make("p", "unasked", pick.status === "in flight" ? "Asked, not answered yet" : "Caption not asked")];
  }
  pick.text = make("p", "caption", pick.caption);
  if (pick.caption.length < 260 && pick.caption.split("\n").length < 7) return [pick.text];
  pick.text.classList.add("long");
  const more = button("more", "Show all", () => {
    const open = pick.text.classList.toggle("open");
    more.textContent = open ? "Show less" : "Show all";
    more.setAttribute("aria-expanded", String(open));
  });
  more.setAttribute("aria-expanded", "false");
  return [pick.text, more];
}

// ---- repeated answers: only the first is shown --------------------------------------

const isFolded = (pick) => pick.leader !== pick && !pick.leader.isOpen && !words.length && wanted === "all";

function makeFold(pick) {
  if (!pick.followers?.length) return null;
  const say = () => {
    const same = `same for ${lasting(pick.followers.at(-1).end - pick.start)} (${plural(pick.followers.length, "more pick")})`;
    toggle.textContent = pick.isOpen ? `Hide the ${same}` : `The ${same}`;
    toggle.setAttribute("aria-expanded", String(Boolean(pick.isOpen)));
  };
  const toggle = button("more fold", "", () => { pick.isOpen = !pick.isOpen; say(); search(); });
  pick.sayFold = say;
  say();
  return toggle;
}

/** Evidence for a pick without a vision-language model, each text once; speech by time, else by confidence. */
function evidenceOf(recording, pick) {
  const best = new Map();
  for (const entry of recording.evidence) {
    const [start, end, kind, text, sure] = entry, key = `${kind} ${text}`;
    if (start < pick.end && end > pick.start && !(best.get(key)?.[4] >= sure)) best.set(key, entry);
  }
  return [...best.values()].sort((a, b) => (a[2] === "said" && b[2] === "said" ? a[0] - b[0] : b[4] - a[4]));
}

/** What small models heard, transcribed, read and saw: one line per kind, never a caption. */
function makeEvidence(recording, pick) {
  const known = evidenceOf(recording, pick);
  pick.parts = [];
  if (!known.length) return null;
  const list = make("dl", "evidence");
  for (const kind of ["heard", "said", "read", "seen"]) {
    const own = known.filter((entry) => entry[2] === kind);
    if (!own.length) continue;
    const shown = make("dd", "");
    for (const [, , , text, sure] of own) {
      const part = make("span", kind === "said" || kind === "read" ? "quoted" : "", text);
      pick.parts.push([part, text]);
      shown.append(part, make("small", "", ` ${Math.round(100 * sure)} %`), " ");
    }
    shown.append(make("small", "origin", [...new Set(own.map((entry) => entry[5]))].join(", ")));
    list.append(make("dt", "", kind), shown);
  }
  return list;
}

function makeCard(recording, pick) {
  const [first, last] = [pick.start, pick.end - 1e-6].map((time) => Math.floor(time / (recording.window || 1) + 1e-9));
  const peak = Math.max(0, ...recording.scores.slice(first, last + 1));
  const took = pick.caption === null ? null
    : `${pick.model} · ${plural(pick.prompt_tokens + pick.completion_tokens, "token")} · ${pick.latency.toFixed(1)} s${pick.finish === "length" ? " · cut short" : ""}`;
  const evidence = makeEvidence(recording, pick), told = new Set(pick.parts.map(([, text]) => text));
  pick.shownTags = pick.tags.filter((tag) => !told.has(tag)); // a sound is shown once, with its confidence
  pick.tagList = make("ul", "tags", ...pick.shownTags.map((tag) => make("li", "", tag)));
  pick.tagList.setAttribute("aria-label", "Tags");
  pick.card = make("article", "card", makeShot(recording, pick), make("div", "body", ...makeCaption(recording, pick), makeFold(pick),
    evidence, pick.shownTags.length ? pick.tagList : null,
    make("div", "why", make("p", "", pick.round > 1 ? `round ${pick.round}: ${pick.reason}` : pick.reason), make("p", "score", `score ${pick.score === null ? "–" : pick.score}`, meter(peak / 100)),
      took ? make("p", "", took) : null, pick.note ? make("p", "", pick.note) : null)));
  mark(pick);
  return pick.card;
}

// Only the found picks of a recording from `first` to `last` have cards; scrolling adds more.
const MORE = 200, AT_FIRST = run.pictures ? MORE : Infinity;

function drawCards(recording) {
  const { found, first, last } = recording;
  recording.grid.replaceChildren(...found.slice(first, last).map((pick) => pick.card || makeCard(recording, pick)));
  recording.earlier.hidden = first === 0;
  recording.more.hidden = last >= found.length;
  recording.more.textContent = `Show more of ${plural(found.length, "pick")}`;
  if (recording.more.hidden) return;
  scrolled.unobserve(recording.more); // observing it again reports whether it is still in view
  scrolled.observe(recording.more);
}

const scrolled = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((each) => each.isIntersecting)) entry.target.click();
}, { rootMargin: "800px" });

function makeMore(recording, text, change) {
  const more = button("more", text, () => { change(); drawCards(recording); });
  more.hidden = true;
  return more;
}

/** Ensures that a pick has a card; if not, draws the cards around it. */
function show(recording, pick) {
  const place = recording.found.indexOf(pick);
  if (place >= recording.first && place < recording.last) return;
  recording.first = Math.max(0, place - MORE / 2);
  recording.last = recording.first + MORE;
  drawCards(recording);
}

/** Links to the recordings; empty if there is only one. */
function drawContents() {
  if (run.recordings.length < 2) return [];
  const entries = run.recordings.map((recording, place) => {
    const link = make("a", "", recording.name);
    link.href = `#recording-${place}`;
    return make("li", "", link, make("span", "quiet", ` ${lasting(recording.duration)}, ${plural(recording.picks.length, "pick")}`));
  });
  const list = make("nav", "contents", make("ul", "", ...entries));
  list.setAttribute("aria-label", "Recordings");
  return [list];
}

function makeRecording(recording, place) {
  const facts = [lasting(recording.duration), plural(recording.windows, "window"), `${whole(recording.picks.length)} picked`,
    recording.rule ? `by ${recording.rule}` : null,
    recording.heard ? `listened to by reading ${size(recording.heard)} of ${size(recording.size)}` : null,
    ...(run.recordings.length === 1 ? [] // shown at the top of the page
      : [recording.coverage.share === null ? null : `expected coverage of actions ${recording.coverage.words}`, recording.coverage.actions])];
  const section = make("section", "recording", make("h2", "", recording.name),
    make("p", "quiet", facts.filter(Boolean).join(" · ")),
    ...recording.notes.map((note) => make("p", "note", note)), ...makeStrip(recording));
  section.id = `recording-${place}`;
  recording.grid = make("div", "cards");
  recording.earlier = makeMore(recording, "Show earlier", () => { recording.first = Math.max(0, recording.first - MORE); });
  recording.more = makeMore(recording, "", () => { recording.last += MORE; });
  for (const pick of recording.picks) {
    pick.recording = recording;
    pick.leader = recording.picks[pick.leader];
    pick.leader.followers = (pick.leader.followers || []).concat(pick === pick.leader ? [] : [pick]);
    picks.push(pick);
  }
  recording.none = make("p", "none", "No pick of this recording matches.");
  recording.none.hidden = true;
  recording.momentList = make("ul", "moments");
  recording.momentList.setAttribute("aria-label", "Moments found");
  section.append(recording.momentList, recording.earlier, recording.grid, recording.more, recording.none);
  return section;
}

// ---- searching ----------------------------------------------------------------------------

let wanted = "all";
/** Sets a text with the found words marked; nothing is marked if folding changes its length. */
function highlight(element, text, query) {
  if (!query.length || fold(text).length !== text.length) { element.textContent = text; return; }
  const parts = [], words = wordsOf(text);
  let done = 0;
  words.forEach((own, place) => {
    const phrase = query.find((each) => standsAt(each, words, place));
    if (!phrase || own.at < done) return;
    const last = words[place + phrase.length - 1], typed = phrase.at(-1).word;
    const end = last.at + (last.word.startsWith(typed) ? typed.length : last.word.length);
    parts.push(text.slice(done, own.at), make("mark", "", text.slice(own.at, end)));
    done = end;
  });
  element.replaceChildren(...parts, text.slice(done));
}

let words = [];

/** Marks the searched words on the card of a pick. */
function mark(pick) {
  if (!words.length && !pick.isMarked) return;
  pick.isMarked = words.length > 0;
  if (pick.text) highlight(pick.text, pick.caption, words);
  pick.shownTags.forEach((tag, place) => highlight(pick.tagList.children[place], tag, words));
  pick.parts.forEach(([part, text]) => highlight(part, text, words));
}

function isFound(pick) {
  if (!words.length) return true;
  return holdsWords(pick, words) || touches(pick.recording.told, pick); // its card shows the evidence found
}

function search() {
  words = asQuery($("search").value);
  let room = AT_FIRST, moments = 0;
  for (const recording of run.recordings) {
    findMoments(recording, words);
    moments += recording.moments.length;
    for (const pick of recording.picks) {
      pick.isFound = (wanted === "all" || pick.status === wanted) && isFound(pick);
      if (pick.isFound && pick.card) mark(pick);
    }
    recording.found = recording.picks.filter((pick) => pick.isFound && !isFolded(pick));
    recording.first = 0;
    recording.last = Math.min(recording.found.length, Math.max(0, room));
    room -= recording.found.length;
    recording.none.hidden = recording.found.length > 0 || recording.moments.length > 0 || !recording.picks.length;
    drawCards(recording);
  }
  const count = picks.filter((pick) => pick.isFound).length;
  $("found").textContent = (words.length && moments ? `${plural(moments, "moment")} · ` : "")
    + (words.length || wanted !== "all" ? `${whole(count)} of ${plural(picks.length, "pick")}` : plural(count, "pick"));
  strips.forEach(drawStrip);
}

function drawFilters() {
  const states = [["all", "All"], ["answered", "Answered"], ["failed", "Failed"], ["in flight", "In flight"], ["not asked", "Not asked"]]
    .filter(([state]) => state === "all" || picks.some((pick) => pick.status === state));
  if (states.length > 2) $("filters").append(...makeFilters(states, (state) => { wanted = state; search(); }));
}

// ---- playback and navigation -------------------------------------------------------------

function play(recording, time) {
  const file = recording.files.findLast(([, start]) => start <= time) || recording.files[0];
  if (!file) return;
  const [link, start] = file; // the chapter file that contains this time
  const video = $("video");
  $("player").hidden = false;
  $("playing").textContent = [recording.name, clock(time), timeOfDay(recording.began, time)].filter(Boolean).join(" · ");
  $("unplayable").hidden = true;
  video.hidden = false;
  video.dataset.path = recording.path;
  video.onended = () => { // goes on with the next chapter; clips of a bundle have gaps
    const next = recording.files[recording.files.indexOf(file) + 1];
    if (next && Math.abs(start + video.duration - next[1]) < 0.5) play(recording, next[1]);
  };
  video.src = `${link}#t=${(time - start).toFixed(3)}`;
  video.play().catch(() => {}); // a browser may require a second click; one that cannot play reports it below
}

function closePlayer() {
  $("video").pause();
  $("player").hidden = true;
}

function goTo(pick) {
  if (isFolded(pick)) { pick.leader.isOpen = true; pick.leader.sayFold?.(); search(); }
  show(pick.recording, pick);
  pick.card.scrollIntoView({ block: "center" });
  pick.button.focus({ preventScroll: true });
}

function step(by) {
  const open = picks.filter((pick) => pick.isFound && !isFolded(pick));
  if (!open.length) return;
  const now = open.findIndex((pick) => pick.button && pick.button === document.activeElement);
  goTo(open[now < 0 ? (by > 0 ? 0 : open.length - 1) : Math.min(open.length - 1, Math.max(0, now + by))]);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target === $("search");
  if (event.key === "Escape" && !$("player").hidden) closePlayer();
  else if (event.key === "Escape" && isTyping) { $("search").value = ""; search(); }
  else if (event.key === "/" && !isTyping) { event.preventDefault(); $("search").focus(); }
  else if (event.key === "j" && !isTyping) step(1);
  else if (event.key === "k" && !isTyping) step(-1);
}

drawHead();
drawOverview();
$("main").append(...drawContents(), ...run.recordings.map(makeRecording));
if (!run.recordings.length) $("main").append(make("p", "none", "This run has no recordings yet."));
drawFilters();
search();
$("search").addEventListener("input", search);
$("close").addEventListener("click", closePlayer);
$("video").addEventListener("error", () => {
  $("video").hidden = true;
  $("unplayable").hidden = false;
  $("unplayable").textContent = `The video cannot be played here: ${$("video").dataset.path}`;
});
$("video").addEventListener("loadedmetadata", () => {
  $("unplayable").hidden = $("video").videoWidth > 0;
  $("unplayable").textContent = `The browser plays the sound but cannot show the video of ${$("video").dataset.path}`;
});
document.addEventListener("keydown", onKey);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => strips.forEach(drawStrip));
