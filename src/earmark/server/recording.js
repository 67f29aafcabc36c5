// One recording: the video, the time line, the picks and their corrections.
import { button, clock, foretold, lasting, make, makeMarks, plural, timeOfDay } from "./parts.js";
import { author, call, followRun, recordingPath, runPath, showError, showMessage } from "./api.js";
import { field } from "./controls.js";
import { archiveAddress } from "./archive.js";
import { makeParagraph } from "./day.js";
import { hostOf } from "./questions.js";
import { TimeLine } from "./timeline.js";

const PAGE = 100, MOST = 500; // picks shown at first, and at most sent at once
const LATEST = 3600; // seconds of a watch that are shown at first
const VERDICTS = { right: "right", partly: "partly right", wrong: "wrong", reworded: "better words", missed: "missed" };

export async function showRecording(place, run, recording, { trail }) {
  const [detail, parent, session] = await Promise.all([call(recordingPath(run, recording)), call(runPath(run)), call("/session")]);
  trail([parent.name, archiveAddress(run)], [detail.name]);
  const view = new RecordingView(place, run, recording, detail, session);
  await view.loadPicks();
  const { duration } = detail.recording, first = parent.plan.watch ? Math.max(0, duration - LATEST) : 0; // a day is long
  if (first) view.line.show(first, duration);
  view.goTo(view.currentTime ?? Number(/^#t=([\d.]+)/.exec(location.hash)?.[1] || first)); // or where the user went meanwhile
  return view;
}

class RecordingView {
  constructor(place, run, recording, detail, session) {
    Object.assign(this, { run, recording, detail, session, picks: [], total: null, wanted: PAGE, chosen: -1, words: "", markFrom: null });
    const { duration } = detail.recording;
    this.video = make("video", "video");
    Object.assign(this.video, { controls: true, preload: "metadata", playsInline: true });
    this.video.setAttribute("aria-label", `Video of ${detail.name}`);
    this.unplayable = make("p", "unplayable");
    this.unplayable.hidden = true;
    this.clock = make("p", "clock");
    this.canvas = make("canvas", "time-line");
    this.line = new TimeLine(this.canvas, {
      duration, marks: detail.recording.marks, began: detail.recording.began,
      load: (start, end, cells) => call(recordingPath(run, recording, `/timeline?${new URLSearchParams({ start, end, cells })}`)).catch(showError),
      onSeek: (time) => this.goTo(time), onMark: (start, end) => this.mark(start, end),
    });
    this.list = make("div", "picks");
    this.more = button("more", "Show more", () => { this.wanted += PAGE; this.loadPicks().catch(showError); });
    const began = detail.recording.began ? `began ${detail.recording.began.slice(0, 19).replace("T", " ")} ${detail.recording.began.slice(19) || "(zone unknown)"}` : null;
    const facts = [lasting(duration), plural(detail.windows, "window"), detail.choice.rule ? `by ${detail.choice.rule}` : null, began];
    place.append(make("div", "head-line", make("h1", "", detail.name), make("p", "quiet", facts.filter(Boolean).join(" · "))),
      make("div", "review",
        make("section", "stage", this.video, this.unplayable, this.clock, this.tools()),
        make("section", "line-box", makeMarks(detail.recording.marks, (time) => this.goTo(time)), this.canvas, make("p", "quiet hint", "Click to play from there; wheel or + and − zoom; drag the lowest lane, or press m twice, to mark what was missed.")),
        make("section", "side", this.searchBar(), this.scroller = make("div", "pick-list", this.list, this.more))),
      this.overview(detail.day), ...[...detail.warnings, ...detail.choice.notes].map((note) => make("p", "note", note)),
      make("section", "totals", foretold(detail.coverage)));
    this.video.addEventListener("timeupdate", () => this.onTime());
    this.video.addEventListener("ended", () => {
      const next = this.detail.parts[this.detail.parts.indexOf(this.part) + 1];
      if (next) this.goTo(next.start, true);
    });
    this.video.addEventListener("error", () => this.cannotPlay("The browser cannot play this file; its timeline and answers are still shown."));
    this.video.addEventListener("loadedmetadata", () => {
      if (this.seekTo !== undefined) this.video.currentTime = this.seekTo;
      this.video.hidden = false;
      this.unplayable.hidden = this.video.videoWidth > 0;
      this.unplayable.textContent = "The browser plays the sound of this file but cannot show its video.";
    });
    this.onHash = () => this.goTo(Number(/^#t=([\d.]+)/.exec(location.hash)?.[1] || 0));
    window.addEventListener("hashchange", this.onHash);
    this.events = followRun(run, (now) => this.onProgress(now));
  }

  /** What happened, as in the summary of the day. */
  overview({ lines, paragraph }) {
    const list = make("dl", "", ...lines.filter(([heading]) => heading !== "Summary").flatMap(([heading, text]) => [make("dt", "", heading), make("dd", "", text)]));
    return make("section", "facts overview", make("h2", "", "What happened"), paragraph ? makeParagraph(paragraph, hostOf(this.run)) : null, list);
  }

  close() { this.events.close(); window.removeEventListener("hashchange", this.onHash); this.line.close(); this.video.pause(); this.video.removeAttribute("src"); this.video.load(); }

  tools() {
    const box = make("div", "tools",
      button("", "−", () => this.line.zoom(1.5), "Zoom out"), button("", "+", () => this.line.zoom(1 / 1.5), "Zoom in"), button("", "All", () => this.line.show(0, this.line.duration), "Show all of it"),
      button("", "Mark missed", () => this.toggleMark()), button("ask", "Ask this …", () => this.ask().catch(showError)),
      button("", "Copy link", () => this.copy()), exportLink(this.run));
    const ask = box.querySelector(".ask");
    ask.disabled = !this.session.model;
    ask.title = this.session.why_not;
    return box;
  }

  searchBar() {
    const find = (words) => { Object.assign(this, { words, wanted: PAGE }); this.loadPicks().catch(showError); };
    const search = field("Search the picks of this recording", find, { type: "search", placeholder: "Captions and sounds of this recording" });
    this.count = make("span", "quiet");
    this.count.setAttribute("role", "status");
    return make("div", "tools", search, this.count);
  }

  /** Reload if the run has new answers or corrections, also those from before the first event. */
  onProgress({ said, totals, watch }) {
    const state = [...said, totals.answered, totals.failed, totals.picks, totals.duration].join();
    if (state !== this.state) this.changed("").catch(showError);
    if (state !== this.state && watch) this.grow().catch(showError);
    this.state = state;
  }

  /** A recording of a watch becomes longer while its page is open. */
  async grow() {
    this.detail = await call(recordingPath(this.run, this.recording));
    this.line.grow(this.detail.recording.duration);
  }

  // ---- playing ------------------------------------------------------------------------------

  get time() { return this.part && !this.video.hidden ? this.part.start + this.video.currentTime : this.currentTime || 0; }

  goTo(time, isPlayed = false) {
    const part = this.detail.parts.findLast((each) => each.start <= time) || this.detail.parts[0];
    this.currentTime = time;
    this.seekTo = time - part.start;
    if (part.why_not) this.cannotPlay(`The video cannot be played here: ${part.why_not}.`);
    else if (part !== this.part) {
      this.part = part;
      this.video.src = `/media/${encodeURIComponent(this.run)}/${encodeURIComponent(this.recording)}/${part.part}`;
    } else this.video.currentTime = this.seekTo;
    if (isPlayed) this.video.play().catch(() => {});
    this.line.setTime(time);
    this.showTime(time);
  }

  onTime() {
    const time = this.time;
    this.currentTime = time;
    this.line.setTime(time);
    this.showTime(time);
  }

  /** Choose the pick at a time; scroll to its card if the list has a scroll bar of its own. */
  follow(time) {
    const holds = (each) => each && each.start <= time && time < each.end;
    if (holds(this.picks[this.chosen])) return;
    const place = this.picks.findIndex(holds);
    if (place >= 0) this.choose(place, this.scroller.scrollHeight > this.scroller.clientHeight);
  }

  showTime(time) {
    this.follow(time);
    const day = timeOfDay(this.detail.recording.began, time);
    this.clock.textContent = `${clock(time)} of ${clock(this.detail.recording.duration)}${day && ` · ${day}`}`;
  }

  cannotPlay(words) {
    if (!this.video.getAttribute("src") && !words.includes("from here")) return;
    this.video.hidden = true;
    this.unplayable.hidden = false;
    this.unplayable.textContent = words;
  }

  // ---- the picks ----------------------------------------------------------------------------

  /** Load as many picks as are wanted. Of several loads the last one begun counts: answers may arrive in another order. */
  async loadPicks() {
    const load = this.lastLoad = {}, picks = [];
    let total = this.wanted;
    while (picks.length < Math.min(this.wanted, total)) {
      const query = new URLSearchParams({ offset: picks.length, limit: Math.min(MOST, this.wanted - picks.length), words: this.words });
      const page = await call(recordingPath(this.run, this.recording, `/picks?${query}`));
      if (load !== this.lastLoad) return;
      picks.push(...page.picks);
      total = page.picks.length ? page.total : picks.length;
    }
    const isNew = total !== this.total || JSON.stringify(picks) !== JSON.stringify(this.picks);
    Object.assign(this, { picks, total });
    if (isNew) this.drawPicks(); // unchanged cards stay, so that a click does not miss
  }

  drawPicks() {
    const held = document.activeElement, place = [...this.list.children].findIndex((card) => card.contains(held));
    this.list.replaceChildren(...this.picks.map((each, place) => this.card(each, place)));
    this.more.hidden = this.picks.length >= this.total;
    this.count.textContent = plural(this.total, "moment");
    if (place >= 0 && held.className) this.list.children[place]?.querySelector(`.${held.className}`)?.focus({ preventScroll: true });
  }

  card(each, place) {
    const { start, end, reason } = each;
    const card = make("article", place === this.chosen ? "pick chosen" : "pick");
    card.tabIndex = -1;
    if (each.has_picture) {
      const image = make("img");
      Object.assign(image, { loading: "lazy", alt: `Frame at ${clock(each.instant)}`, src: `/api${recordingPath(this.run, this.recording, `/picture?${new URLSearchParams({ start, end })}`)}` });
      card.append(image);
    }
    const day = timeOfDay(this.detail.recording.began, start);
    const when = button("at", `${clock(start)} – ${clock(end)}${day && ` · ${day}`}`, () => { this.choose(place); this.goTo(start, true); }, `Play at ${clock(start)}`);
    const unasked = each.evidence ? null : make("p", "unasked", "Caption not asked"); // evidence stands where a caption would
    const text = each.failure ? make("p", "failure", `Failed: ${each.failure}`) : each.caption === null ? unasked : make("p", "caption", each.caption);
    const evidence = each.evidence ? make("p", "evidence-line", each.evidence) : null;
    const tags = make("ul", "tags", ...each.tags.map((tag) => make("li", "", tag)));
    const body = make("div", "pick-body", when, text, each.tags.length ? tags : null, evidence, make("p", "quiet", [reason, each.model, each.note].filter(Boolean).join(" · ")));
    body.append(make("div", "judge", ...(each.caption === null ? [] : this.verdictButtons(each, place)), this.clip(start, end)));
    body.lastChild.setAttribute("role", "group");
    body.lastChild.setAttribute("aria-label", `The pick at ${clock(start)}`);
    body.append(...each.verdicts.map((one) => this.verdict(one)));
    card.append(body);
    return card;
  }

  verdictButtons(each, place) {
    return [button("right", "Right", () => this.correct(place, "right")), button("wrong", "Wrong", () => this.correct(place, "wrong")), button("reword", "Better words …", () => this.reword(place))];
  }

  /** A link to a span as a video file; null if the recording is on another machine. */
  clip(start, end) {
    if (this.detail.recording.path.includes("://") || this.detail.parts.some((part) => part.why_not)) return null;
    const link = make("a", "button clip", "Clip");
    link.href = `/api${recordingPath(this.run, this.recording, `/clip?${new URLSearchParams({ start, end })}`)}`;
    link.download = "";
    link.title = "Download this pick as a video";
    link.setAttribute("aria-label", `Download the clip at ${clock(start)}`);
    return link;
  }

  verdict(one) {
    const words = `${one.author}: ${VERDICTS[one.verdict]}${one.text ? ` – “${one.text}”` : ""}`;
    return make("p", `verdict ${one.verdict}`, words, " ", button("undo", "undo", () => call(`${runPath(this.run)}/corrections/${one.id}`, { method: "DELETE" }).then(() => this.changed("undone")).catch(showError)));
  }

  choose(place, isShown = true) {
    this.chosen = Math.min(this.picks.length - 1, Math.max(0, place));
    [...this.list.children].forEach((card, each) => card.classList.toggle("chosen", each === this.chosen));
    if (isShown) this.list.children[this.chosen]?.scrollIntoView({ block: "nearest" });
  }

  // ---- what people say ----------------------------------------------------------------------

  /** Whether the person gave a name; asks for it otherwise. */
  isNamed() {
    if (author()) return true;
    document.getElementById("author").focus();
    showMessage("Enter your name first: it is stored with your corrections.", true);
    return false;
  }

  async send(correction) {
    if (!this.isNamed()) return;
    await call(recordingPath(this.run, this.recording, "/corrections"), { method: "POST", body: { author: author(), ...correction } });
    await this.changed(`${VERDICTS[correction.verdict]}: kept`);
  }

  async changed(words) {
    if (words) this.line.draft = null;
    this.line.refresh();
    await this.loadPicks();
    if (words) showMessage(words);
  }

  correct(place, verdict, text = "") {
    const each = this.picks[place];
    if (!each || each.caption === null) { showMessage("There is no answer to judge here.", true); return; }
    this.choose(place);
    this.send({ start: each.start, end: each.end, verdict, text }).catch(showError);
  }

  async reword(place) {
    const each = this.picks[place];
    if (!each || each.caption === null || !this.isNamed()) return;
    const text = await askUser("Better words", "What is done here?", each.caption);
    if (text) this.correct(place, "reworded", text);
  }

  toggleMark() {
    if (this.markFrom === null) {
      this.markFrom = this.time;
      showMessage(`A missed moment begins at ${clock(this.markFrom)}: go to its end and press m again.`);
      return;
    }
    const [start, end] = [this.markFrom, this.time].sort((a, b) => a - b);
    this.markFrom = null;
    this.mark(start, Math.max(end, start + 0.1));
  }

  async mark(start, end) {
    if (!this.isNamed()) { this.line.draft = null; this.line.draw(); return; }
    this.line.draft = [start, end];
    this.line.draw();
    const text = await askUser("A missed moment", `${clock(start)} to ${clock(end)}: what is done?`, "");
    if (text === null) { this.line.draft = null; this.line.draw(); return; }
    this.send({ start, end, verdict: "missed", text }).catch(showError);
  }

  async ask() {
    const quote = await call(recordingPath(this.run, this.recording, `/quote?time=${this.time}`));
    const cost = quote.money ? `at most ${quote.money.toPrecision(2)} (in the currency of your prices)` : "no price";
    const words = `${clock(quote.span.start)} to ${clock(quote.span.end)}, asked of ${quote.model}: at most ${plural(quote.tokens, "token")}, ${cost}${quote.is_answered ? "; already answered" : ""}.`;
    if (await askUser("Ask this window", words, undefined) === null) return;
    showMessage("Asking …");
    await call(recordingPath(this.run, this.recording, "/ask"), { method: "POST", body: { time: this.time } });
    await this.changed("answered");
  }

  copy() {
    const link = `${location.origin}${location.pathname}#t=${this.time.toFixed(1)}`;
    history.replaceState(null, "", `#t=${this.time.toFixed(1)}`);
    (navigator.clipboard?.writeText(link) ?? Promise.reject()).then(() => showMessage("link copied"), () => showMessage(link));
  }

  onKey(event) {
    const by = event.shiftKey ? 10 : 1, { duration } = this.detail.recording;
    const keys = {
      " ": () => (this.video.paused ? this.video.play().catch(() => {}) : this.video.pause()),
      ArrowLeft: () => this.goTo(Math.max(0, this.time - by)), ArrowRight: () => this.goTo(Math.min(duration, this.time + by)),
      Home: () => this.goTo(0), End: () => this.goTo(duration), "+": () => this.line.zoom(1 / 1.5), "=": () => this.line.zoom(1 / 1.5), "-": () => this.line.zoom(1.5), 0: () => this.line.show(0, duration),
      j: () => this.step(1), k: () => this.step(-1), ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1),
      Enter: () => this.chosen >= 0 && this.goTo(this.picks[this.chosen].start, true),
      r: () => this.correct(this.chosen, "right"), w: () => this.correct(this.chosen, "wrong"), e: () => this.reword(this.chosen),
      m: () => this.toggleMark(), a: () => this.session.model && this.ask().catch(showError), c: () => this.copy(),
      d: () => this.list.children[Math.max(0, this.chosen)]?.querySelector(".clip")?.click(),
    };
    if (event.target.closest("button, a, summary") && [" ", "Enter"].includes(event.key)) return false;
    if (!(event.key in keys)) return false;
    keys[event.key]();
    return true;
  }

  step(by) {
    this.choose(this.chosen + by);
    if (this.picks[this.chosen]) this.goTo(this.picks[this.chosen].start);
  }
}

function exportLink(run) {
  const link = make("a", "button", "Export corrections");
  link.href = `/api${runPath(run)}/export?format=corrections`;
  link.download = "corrections.jsonl";
  return link;
}

/** Ask the user for a text, or only to confirm if `text` is undefined; null if cancelled. */
function askUser(title, words, text) {
  const dialog = make("dialog", "ask-dialog"), field = text === undefined ? null : make("textarea"), form = make("form");
  if (field) { field.value = text; field.maxLength = 4000; field.setAttribute("aria-label", words); }
  form.method = "dialog";
  const yes = make("button", "yes", field ? "Keep" : "Ask"), no = make("button", "", "Cancel");
  no.value = "no";
  yes.value = "yes";
  form.append(make("h2", "", title), make("p", "", words), ...(field ? [field] : []), make("div", "tools", yes, no));
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    resolve(dialog.returnValue === "yes" ? (field ? field.value.trim() : "") : null);
    dialog.remove();
  }));
}
