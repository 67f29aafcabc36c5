// The page of a run: the day, then every recording with its video, timeline and moments.

const host = {
  picture: (moment) => {
    const image = pictureOf(moment);
    return !image ? "" : image.endsWith(".jpg") ? run.pictures + image : `data:image/jpeg;base64,${image}`;
  },
  media: ({ recording, start }) => mediaAt(recordingOf(recording), start),
  link: ({ recording, start }) => `#t=${run.recordings.indexOf(recordingOf(recording))},${start.toFixed(1)}`,
  search: (words) => { $("search").value = words; search(); window.scrollTo(0, 0); },
  mark: (element, text) => highlight(element, text, asQuery($("search").value)),
};
const recordingOf = (id) => run.recordings.find((recording) => recording.id === id);

/** The chapter file that contains a time and the second in it; null if it cannot be opened from here. */
function mediaAt({ files }, time) {
  const file = files.findLast(([, start]) => start <= time) || files[0];
  return file ? [file[0], Math.max(0, time - file[1])] : null;
}

function drawHead() {
  const sums = run.totals;
  fillFrame(run, [run.day.title, plural(sums.recordings, "recording"), lasting(sums.duration),
    run.plan.model && run.plan.model !== "tags" ? `model ${run.plan.model}` : null].filter(Boolean).join(" · "));
  $("overview").append(makeDay(run.day, host));
  const isAsked = run.plan.model !== "tags" || sums.asked > 0, waiting = sums.picks - sums.answered - sums.failed;
  const state = [sums.failed ? `${whole(sums.failed)} failed` : null, isAsked && waiting ? `${whole(waiting)} unanswered` : null];
  $("totals").append(
    figure(isAsked ? "Calls answered" : "Windows chosen", whole(isAsked ? sums.answered : sums.picks),
      [`of ${whole(sums.windows)}, ${percent(isAsked ? sums.answered : sums.picks, sums.windows)}`, ...state].filter(Boolean).join(" · "),
      share(isAsked ? sums.answered : sums.picks, sums.windows)),
    foretold(run.coverage),
    figure("Read", size(sums.bytes_read), sums.bytes_read > sums.size_bytes ? `some of ${size(sums.size_bytes)} more than once` : `of ${size(sums.size_bytes)}`, share(sums.bytes_read, sums.size_bytes)),
    figure("Frames decoded", whole(sums.frames_decoded),
      [!sums.frame_count ? null : sums.frames_decoded > sums.frame_count ? `some of ${whole(sums.frame_count)} more than once` : `of ${whole(sums.frame_count)}`,
        run.plan.ask?.blur ? `${plural(sums.faces_blurred, "face")} blurred` : null].filter(Boolean).join(" · "), share(sums.frames_decoded, sums.frame_count)));
  if (sums.interrupted) $("totals").append(make("p", "warn", `${plural(sums.interrupted, "call")} in flight when a process died may have been asked twice.`));
}

// ---- recordings -----------------------------------------------------------------------------

/** A part of a curve in `cells` equal parts, the largest value in each. */
function cut(values, hop, start, end, cells) {
  const made = new Array(cells).fill(0), step = (end - start) / cells;
  for (let cell = 0; cell < cells; cell += 1) {
    const first = Math.floor((start + cell * step) / hop), last = Math.max(first + 1, Math.ceil((start + (cell + 1) * step) / hop));
    for (let place = first; place < last; place += 1) made[cell] = Math.max(made[cell], values[place] || 0);
  }
  return made;
}

function timelineOf(recording) {
  const picks = recording.picks.map(({ start, end, caption, tags, status }) => ({ start, end, text: caption ?? tags.join(", "), kind: status }));
  return (start, end, cells) => ({ start, end, picks, sounds: recording.lanes, speech: recording.speech, corrections: [],
    level: recording.level.length ? cut(recording.level, recording.hop, start, end, cells) : [],
    score: recording.window && recording.scores.length ? cut(recording.scores, recording.window, start, end, cells) : [] });
}

const isNarrow = matchMedia("(max-width: 34rem)").matches;

class RecordingPart {
  constructor(recording, place) {
    this.recording = recording;
    this.video = Object.assign(make("video", "video"), { controls: true, preload: "none", playsInline: true });
    this.video.setAttribute("aria-label", `Video of ${recording.name}`);
    this.clock = make("p", "clock");
    this.unplayable = make("p", "unplayable");
    this.unplayable.hidden = true;
    const canvas = make("canvas", "time-line"), load = timelineOf(recording);
    this.line = new TimeLine(canvas, { duration: recording.duration, marks: recording.marks, began: recording.began, load: async (...span) => load(...span), onSeek: (time) => this.goTo(time) });
    const moments = groupMoments(pickMoments(recording)), first = moments.find((moment) => moment.image);
    if (first) this.video.poster = host.picture(first);
    const facts = [lasting(recording.duration), recording.began ? `began ${recording.began.slice(0, 10)} ${timeOfDay(recording.began, 0)} ${recording.began.slice(19)}` : null, `${whole(recording.picks.length)} of ${plural(recording.windows, "window")} chosen`,
      recording.rule ? `by ${recording.rule}` : null, run.recordings.length === 1 ? null : recording.coverage.actions];
    const stage = recording.files.length ? make("div", "stage", this.video, this.unplayable, this.clock) : null;
    this.section = make("section", "recording", make("h2", "", recording.name), make("p", "quiet", facts.filter(Boolean).join(" · ")),
      make("div", stage ? "review" : "review bare", stage,
        make("div", "line-box", makeMarks(recording.marks, (time) => this.goTo(time)), canvas),
        make("div", "side", make("div", "pick-list", moments.length ? listMoments(moments, host, { name: `Moments of ${recording.name}`, atFirst: isNarrow ? 3 : 8 }) : make("p", "none", "Nothing was chosen here.")))),
      ...recording.notes.map((note) => make("p", "note", note)));
    this.section.id = `recording-${place}`;
    this.video.addEventListener("timeupdate", () => this.showTime(this.start + this.video.currentTime));
    this.video.addEventListener("ended", () => { // goes on with the next chapter; clips of a bundle have gaps
      const next = recording.files[recording.files.findIndex(([link]) => link === this.src) + 1];
      if (next && Math.abs(this.start + this.video.duration - next[1]) < 0.5) this.goTo(next[1]);
    });
    this.video.addEventListener("error", () => this.say(`The video cannot be played here: ${recording.path}`, true));
    this.video.addEventListener("loadedmetadata", () => this.say(this.video.videoWidth ? "" : `The browser plays the sound but cannot show the video of ${recording.path}`));
    this.video.addEventListener("play", () => { if (!this.src) this.goTo(0); }, { once: true });
    this.load(0);
    this.showTime(0);
  }

  say(words, isHidden = false) {
    this.unplayable.textContent = words;
    this.unplayable.hidden = !words;
    this.video.hidden = isHidden;
  }

  load(time) {
    const media = mediaAt(this.recording, time);
    if (!media) return;
    this.start = time - media[1];
    if (this.src !== media[0]) this.video.src = `${this.src = media[0]}#t=${media[1].toFixed(3)}`;
    else this.video.currentTime = media[1];
  }

  goTo(time, isShown = false) {
    this.load(time);
    this.showTime(time);
    if (this.src) this.video.play().catch(() => {}); // a browser may require a second click
    if (isShown) this.section.scrollIntoView();
  }

  showTime(time) {
    const { began, duration } = this.recording, day = timeOfDay(began, time);
    this.line.setTime(time);
    this.clock.textContent = `${clock(time)} of ${clock(duration)}${day && ` · ${day}`}`;
  }
}

/** Links to the recordings; empty if there is only one. */
function drawContents() {
  if (run.recordings.length < 2) return [];
  const entries = run.recordings.map((recording, place) => {
    const link = make("a", "", recording.name);
    link.href = `#recording-${place}`;
    return make("li", "", link, make("span", "quiet", ` ${[timeOfDay(recording.began, 0).slice(0, 5), lasting(recording.duration)].filter(Boolean).join(", ")}`));
  });
  const list = make("nav", "contents", make("h2", "", "Recordings"), make("ul", "", ...entries));
  list.setAttribute("aria-label", "Recordings");
  return [list];
}

// ---- searching ------------------------------------------------------------------------------

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

/** One list of moments of all recordings, in place of the day and the recordings. */
function search() {
  const query = asQuery($("search").value), isOn = query.length > 0;
  for (const id of ["overview", "totals", "main"]) $(id).hidden = isOn;
  const moments = isOn ? groupMoments(run.recordings.flatMap((recording) => findMoments(recording, query))) : [];
  $("results").hidden = !isOn;
  $("results").replaceChildren(...(!isOn ? [] : moments.length ? [listMoments(moments, host, { name: "Moments found", atFirst: 48 })] : [make("p", "none", "No moment matches.")]));
  $("found").textContent = isOn ? plural(moments.length, "moment") : "";
}

function step(by) {
  const buttons = [...document.querySelectorAll(".play")].filter((each) => each.offsetParent);
  const now = buttons.indexOf(document.activeElement), next = buttons[now < 0 ? (by > 0 ? 0 : buttons.length - 1) : Math.min(buttons.length - 1, Math.max(0, now + by))];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "center" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target === $("search");
  if (event.key === "Escape" && isTyping) { $("search").value = ""; search(); }
  else if (event.key === "/" && !isTyping) { event.preventDefault(); $("search").focus(); }
  else if (event.key === "j" && !isTyping) step(1);
  else if (event.key === "k" && !isTyping) step(-1);
});

/** Goes to the moment that the address names. */
function follow() {
  const found = /^#t=(\d+),([\d.]+)$/.exec(location.hash), part = found && parts[Number(found[1])];
  if (!part) return;
  $("search").value = "";
  search();
  part.goTo(Number(found[2]), true);
}

Object.assign($("search"), { placeholder: "Search moments: sounds, words, captions", ariaLabel: "Search what was heard, said, seen and captioned" });
drawHead();
const parts = run.recordings.map((recording, place) => new RecordingPart(recording, place));
$("main").append(...drawContents(), ...parts.map((part) => part.section));
$("search").addEventListener("input", search);
window.addEventListener("hashchange", follow);
follow();
