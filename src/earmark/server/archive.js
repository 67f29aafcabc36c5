// The table of an archive: every recording a row with a strip; only visible rows are fetched.
import { button, figure, lasting, listMissed, make, penOf, percent, plural, share, whole } from "./parts.js";
import { call, followRun, runPath, showError, showMessage } from "./api.js";
import { choices, field } from "./controls.js";
import { makeDay } from "./day.js";
import { QuestionBox, hostOf } from "./questions.js";
import { describeWatch } from "./watch.js";

const ROW = 58, PAGE = 100, AHEAD = 8;
const SORTS = [["found", "With captions first"], ["name", "Name"], ["began", "Date"], ["duration", "Length"], ["picks", "Picks"], ["answered", "Captioned"], ["failed", "Failed"],
  ["activity", "Activity"], ["doubt", "Doubt"], ["score", "Score"], ["said", "Speech"], ["sounds", "Named sounds"], ["corrections", "Corrections"]];
const FILTERS = [["all", "All"], ["found", "With captions"], ["open", "Not all captioned"], ["failed", "With failures"], ["speech", "With speech"], ["corrected", "Corrected"]];
const MINIMUMS = [["activity", "Actions per hour", "1"], ["doubt", "Actions not reached", "0.1"], ["score", "Best score", "0.01"]];
const DEFAULT_QUERY = { sort: "found", falls: "false", only: "all", words: "", sound: "", since: "", until: "", activity: "", doubt: "", score: "" };
const MARKS = [["sound", "heard"], ["sound-picked", "picked"], ["mark", "captioned"], ["bad", "failed"], ["good", "corrected"]];

const lastQueries = new Map(); // the query string each archive was last shown with

/** The address of an archive as it was last sorted and filtered. */
export const archiveAddress = (run) => `/run/${encodeURIComponent(run)}${lastQueries.get(run) || ""}`;

export async function showArchive(place, run, { trail, go }) {
  const [detail, session] = await Promise.all([call(runPath(run)), call("/session")]);
  trail([detail.name]);
  const figures = make("section", "totals"), live = make("section", "live"), list = new VirtualRows(run, go);
  const day = new DayPart(run, (words) => box.search(words));
  const box = new QuestionBox({ run, session, onResults: (isOn) => { day.place.hidden = isOn; } });
  figures.setAttribute("aria-label", "Totals");
  place.append(make("h1", "", detail.name), day.title, box.form, box.results, live, day.place, ...missed(detail),
    make("h2", "list-title", "Recordings"), list.bar, list.panel, list.box, legend(), figures);
  drawFigures(figures, detail.totals, detail.agreement);
  let before = "";
  const source = followRun(run, (now) => {
    drawLive(live, run, now, detail, session);
    drawFigures(figures, now.totals, now.agreement);
    const state = [now.totals.answered, now.totals.failed, now.totals.picks, now.totals.duration, ...now.said].join();
    if (before && state !== before) { list.reload(true); day.load().catch(showError); }
    before = state;
  });
  day.load().catch(showError); // the rows need not wait for it
  await list.reload();
  return { close() { source.close(); list.close(); }, onKey: (event) => list.onKey(event) };
}

/** The day of a run; of a run with several days, the one chosen. */
class DayPart {
  constructor(run, search) {
    Object.assign(this, { run, date: "", place: make("div", "day-place", make("p", "quiet", "Reading the day …")), title: make("p", "quiet day-title"), host: { ...hostOf(run), search } });
  }

  async load() {
    const day = await call(`${runPath(this.run)}/day?${new URLSearchParams({ date: this.date })}`);
    const choose = make("select", "", ...choices([["", "all days"], ...day.days.map(([date, count]) => [date, `${date}: ${plural(count, "recording")}`])]));
    Object.assign(choose, { value: this.date, ariaLabel: "Day" });
    choose.addEventListener("change", () => { this.date = choose.value; this.load().catch(showError); });
    this.title.replaceChildren(day.head, " ", day.days.length > 1 ? choose : "");
    const state = JSON.stringify(day); // an unchanged day stays, so that a video goes on
    if (state !== this.state) this.place.replaceChildren(makeDay(day, this.host));
    this.state = state;
  }
}

function legend() {
  return make("p", "legend", ...MARKS.map(([colour, words]) => make("span", `key-${colour}`, words)));
}

function missed(detail) {
  const details = listMissed(detail.missed);
  if (!details) return [];
  Object.assign(details, { className: "missed", open: false });
  return [details];
}

function drawFigures(place, totals, agreement) {
  const judged = agreement.judged
    ? figure("The model was right", percent(agreement.right, agreement.judged), `of ${plural(agreement.judged, "answer")} judged; ${Math.round(100 * agreement.low)} to ${Math.round(100 * agreement.high)} % with 95 % confidence`, agreement.share)
    : figure("The model was right", "–", "no answer judged yet", null);
  place.replaceChildren(
    totals.asked ? figure("Captioned", whole(totals.answered), `of ${plural(totals.picks, "moment")}`, share(totals.answered, totals.picks))
      : figure("Moments", whole(totals.picks), "no model was asked", null),
    figure("Recordings", whole(totals.recordings), lasting(totals.duration), null),
    judged,
    figure("Failed", whole(totals.failed), totals.failed === 1 ? "call" : "calls", null),
    figure("Spent", totals.spend ? totals.spend.toPrecision(3) : "0", totals.spend ? "in the currency of your prices" : `${whole(totals.prompt_tokens + totals.completion_tokens)} tokens`, null));
}

function drawLive(place, run, now, { can_continue: canContinue, plan }, session) {
  const job = now.job;
  const { budget, across = false } = plan;
  const act = (verb, words, body) => button("", words, () => call(`${runPath(run)}/${verb}`, { method: "POST", body }).then(() => showMessage(`${words}: requested`)).catch(showError));
  const goOn = () => act("continue", `Continue with a budget of ${budget}`, { budget, across });
  const parts = [];
  if (now.watch) parts.push(...describeWatch(now.watch, now.is_at_work));
  else if (now.is_at_work) {
    const p = job?.progress || {}, t = now.totals;
    const [verb, done, all] = p.phase && p.phase !== "asking" && p.phase !== "looking" ? [p.phase, p.heard, p.recordings]
      : p.phase === "looking" ? ["looking", p.done, p.calls] : ["asking", t.answered + t.failed, t.picks];
    const bar = make("progress", "progress");
    bar.max = all || 1;
    bar.value = done || 0;
    bar.setAttribute("aria-label", "Progress of the run");
    parts.push(make("span", "pill", verb), bar, make("span", "", `${whole(done || 0)} of ${whole(all || 0)}`),
      p.seconds_left ? make("span", "quiet", `${lasting(p.seconds_left)} left`) : null, job ? act("stop", "Stop") : make("span", "quiet", "started elsewhere"));
  } else {
    if (job?.state === "failed") parts.push(make("span", "bad", job.failure));
    if (canContinue && now.totals.answered < now.totals.picks && (now.totals.asked || session.model)) parts.push(make("span", "quiet", "not running"), goOn());
    else if (job?.state === "stopped") parts.push(make("span", "quiet", "stopped"), goOn());
  }
  place.replaceChildren(...parts.filter(Boolean));
}

/** A virtual list: a box as tall as all rows, which contains only the visible ones. */
class VirtualRows {
  constructor(run, go) {
    const given = new URLSearchParams(location.search);
    this.query = Object.fromEntries(Object.entries(DEFAULT_QUERY).map(([name, value]) => [name, given.get(name) ?? value]));
    Object.assign(this, { run, go, pages: new Map(), found: 0, total: 0, chosen: 0 });
    this.makeBar();
    this.makePanel();
    this.body = make("div", "rows");
    this.box = make("div", "scroller", this.body);
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "listbox");
    this.box.setAttribute("aria-label", "Recordings");
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.box);
  }

  close() { this.observer.disconnect(); this.stopped?.abort(); }

  /** Change the order or a filter; the URL changes too, so that it can be bookmarked and shared. */
  set(name, value) {
    this.query[name] = value;
    const asked = new URLSearchParams(Object.entries(this.query).filter(([key, each]) => each !== DEFAULT_QUERY[key]));
    lastQueries.set(this.run, asked.size ? `?${asked}` : "");
    history.replaceState(null, "", archiveAddress(this.run));
    this.reload();
  }

  field(name, words, kind, more = {}) {
    return field(words, (value) => this.set(name, value), { type: kind, value: this.query[name], ...more });
  }

  select(name, pairs, words, change = (value) => this.set(name, value)) {
    const box = make("select", "", ...choices(pairs));
    Object.assign(box, { id: name, value: this.query[name] });
    box.setAttribute("aria-label", words);
    box.addEventListener("change", () => change(box.value));
    return box;
  }

  makeBar() {
    const turn = button("turn", "", () => { this.set("falls", String(this.query.falls !== "true")); show(); }, "Reverse the order");
    const show = () => { turn.textContent = this.query.falls === "true" ? "↓" : "↑"; };
    show();
    this.count = make("span", "quiet count");
    this.count.setAttribute("role", "status");
    const sort = this.select("sort", SORTS, "Sort by", (value) => { this.query.falls = String(!["name", "found"].includes(value)); this.set("sort", value); show(); });
    this.bar = make("div", "tools", this.field("words", "Recordings whose names, captions or sounds contain", "search", { id: "search", placeholder: "Filter by name, caption or sound" }),
      make("label", "", "Sort ", sort), turn, make("label", "", "Show ", this.select("only", FILTERS, "Show")), this.count);
  }

  makePanel() {
    const names = make("datalist"), labelled = (words, input) => make("label", "field", make("span", "quiet", words), input);
    names.id = "sound-names";
    const sound = this.field("sound", "Only with this sound", "search", { placeholder: "any" });
    sound.setAttribute("list", names.id);
    sound.addEventListener("focus", async () => {
      const found = await call(`${runPath(this.run)}/sounds`).catch((error) => { showError(error); return []; });
      names.replaceChildren(...choices(found.map((one) => [one.name, plural(one.recordings, "recording")])));
    }, { once: true });
    const least = MINIMUMS.map(([name, words, step]) => labelled(`${words}, at least`, this.field(name, `${words}, at least`, "number", { min: "0", step, placeholder: "0" })));
    const clear = button("", "Clear", () => { lastQueries.delete(this.run); this.go(archiveAddress(this.run)); });
    this.panel = make("details", "filter-panel", make("summary", "", "Filter by sound, date, activity, doubt, score"),
      make("div", "tools", labelled("Sound", sound), names, labelled("From", this.field("since", "From this day", "date")), labelled("Until", this.field("until", "Until this day", "date")), ...least, clear));
    this.panel.open = ["sound", "since", "until", "activity", "doubt", "score"].some((name) => this.query[name]);
  }

  async fetchPage(page) {
    const asked = Object.entries(this.query).filter(([, value]) => value !== "");
    const query = new URLSearchParams([...asked, ["offset", page * PAGE], ["limit", PAGE]]);
    return call(`${runPath(this.run)}/recordings?${query}`, { signal: this.stopped.signal });
  }

  async reload(isQuiet = false) {
    this.stopped?.abort();
    this.stopped = new AbortController();
    const first = isQuiet ? Math.floor(this.box.scrollTop / ROW / PAGE) : 0;
    let answer;
    try { answer = await this.fetchPage(first); } catch (error) { showError(error); return; }
    this.pages = new Map([[first, answer.rows]]);
    Object.assign(this, { found: answer.found, total: answer.total });
    if (!isQuiet) { this.box.scrollTop = 0; this.chosen = 0; }
    this.body.style.height = `${this.found * ROW}px`;
    if (!this.found) this.body.replaceChildren();
    this.count.textContent = this.found === this.total ? plural(this.total, "recording") : `${whole(this.found)} of ${plural(this.total, "recording")}`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - AHEAD);
    const last = Math.min(this.found, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW) + AHEAD);
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.requestPage(page);
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(this.row(place));
    this.body.replaceChildren(...rows);
    this.box.setAttribute("aria-activedescendant", `row-${this.chosen}`);
  }

  requestPage(page) {
    if (this.pages.has(page)) return;
    this.pages.set(page, null); // on its way
    this.fetchPage(page).then((answer) => { this.pages.set(page, answer.rows); this.draw(); }).catch((error) => { this.pages.delete(page); showError(error); });
  }

  row(place) {
    const made = this.pages.get(Math.floor(place / PAGE))?.[place % PAGE];
    const row = make("a", place === this.chosen ? "strip-row chosen" : "strip-row");
    row.style.top = `${place * ROW}px`;
    row.id = `row-${place}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(place === this.chosen));
    row.setAttribute("aria-setsize", this.found);
    row.setAttribute("aria-posinset", place + 1);
    row.tabIndex = -1;
    if (!made) { row.append(make("span", "quiet", "…")); return row; }
    const one = made.row;
    row.href = this.address(one);
    row.dataset.link = "";
    row.title = one.path;
    const facts = [lasting(one.duration), one.answered ? `${whole(one.answered)} of ${plural(one.picks, "moment")} captioned` : plural(one.picks, "moment"), one.began ? one.began.slice(0, 16).replace("T", " ") : null,
      one.activity === null ? null : `${whole(one.activity)} actions/h`, one.failed ? `${one.failed} failed` : null, one.said ? `speech ${one.said}` : null, one.corrections ? plural(one.corrections, "correction") : null];
    const canvas = make("canvas", "strip");
    canvas.setAttribute("aria-hidden", "true");
    row.append(make("span", "row-name", one.name), make("span", "row-facts quiet", facts.filter(Boolean).join(" · ")), canvas);
    queueMicrotask(() => drawStrip(canvas, made));
    return row;
  }

  address(row) { return `/run/${encodeURIComponent(this.run)}/${encodeURIComponent(row.id)}`; }

  choose(place) {
    this.chosen = Math.min(this.found - 1, Math.max(0, place));
    const top = this.chosen * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    this.draw();
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      this.choose(steps[event.key] === Infinity ? this.found : this.chosen + steps[event.key]);
      return true;
    }
    const made = this.pages.get(Math.floor(this.chosen / PAGE))?.[this.chosen % PAGE];
    if (event.key === "Enter" && made) { this.go(this.address(made.row)); return true; }
    return false;
  }
}

function drawStrip(canvas, { scores, marks }) {
  const wide = canvas.clientWidth, high = canvas.clientHeight;
  if (!wide) return;
  const [pen, colour] = penOf(canvas);
  const paint = { p: colour("sound-picked"), a: colour("mark"), f: colour("bad"), c: colour("good") };
  const step = wide / marks.length;
  pen.fillStyle = colour("sound");
  scores.forEach((value, place) => { const tall = Math.max(1, (value / 100) * (high - 8)); pen.fillRect((place * wide) / scores.length, high - 6 - tall, wide / scores.length, tall); });
  for (let place = 0; place < marks.length; place += 1) {
    if (marks[place] === ".") continue;
    pen.fillStyle = paint[marks[place]];
    pen.fillRect(place * step, high - 5, Math.max(1.5, step - 0.5), 5);
  }
}
