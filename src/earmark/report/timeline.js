// The time line of a recording: lanes on one canvas that zooms from hours to a second.
import { clock, drawFlag, penOf, timeOfDay } from "./parts.js";

const CURVE = 40, LANE = 18;
const SHORTEST_SECONDS = 1, MARGIN = 4;
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];

export class TimeLine {
  /** `load(start, end, cells)` fetches the data; `onSeek(time)` and `onMark(start, end)` are callbacks, the latter may be missing. */
  constructor(canvas, { duration, marks, began, load, onSeek, onMark }) {
    Object.assign(this, { canvas, duration, marks, began, load, onSeek, onMark, start: 0, end: duration, now: 0, data: null, draft: null, asked: 0, lanes: [] });
    this.setLanes();
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "slider");
    canvas.setAttribute("aria-label", "Timeline; arrows move, plus and minus zoom");
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(Math.round(duration)));
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.draft = null; this.draw(); });
    this.observer = new ResizeObserver(() => this.refresh());
    this.observer.observe(canvas);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.draw();
    this.dark.addEventListener("change", this.onScheme);
  }

  close() { this.observer.disconnect(); this.dark.removeEventListener("change", this.onScheme); clearTimeout(this.wait); }

  /** Pixels for the names of the lanes; 0 on narrow screens. */
  get gutter() { return this.canvas.clientWidth > 600 ? 104 : 0; }
  get room() { return this.canvas.clientWidth - this.gutter; }

  x(time) { return this.gutter + ((time - this.start) / (this.end - this.start)) * this.room; }
  time(x) { return this.start + (Math.max(0, x - this.gutter) / this.room) * (this.end - this.start); }

  show(start, end) {
    const length = Math.min(this.duration, Math.max(SHORTEST_SECONDS, end - start));
    this.start = Math.min(Math.max(0, start), Math.max(0, this.duration - length));
    this.end = this.start + length;
    this.refresh();
  }

  /** The recording is longer now; a view of its end follows it. */
  grow(duration) {
    const isAtEnd = this.end >= this.duration - 1, length = this.start > 0 ? this.end - this.start : duration;
    this.duration = duration;
    this.canvas.setAttribute("aria-valuemax", String(Math.round(duration)));
    if (isAtEnd) this.show(duration - length, duration);
  }

  zoom(factor, around = this.now) {
    const middle = around >= this.start && around <= this.end ? around : (this.start + this.end) / 2;
    this.show(middle - (middle - this.start) * factor, middle + (this.end - middle) * factor);
  }

  setTime(time) {
    this.now = time;
    if (time < this.start || time > this.end) this.show(time - (this.end - this.start) / 3, time + ((this.end - this.start) * 2) / 3);
    this.canvas.setAttribute("aria-valuenow", String(Math.round(time)));
    this.canvas.setAttribute("aria-valuetext", clock(time));
    this.draw();
  }

  refresh() {
    this.canvas.setAttribute("aria-description", `shows ${clock(this.start)} to ${clock(this.end)}`);
    this.canvas.dataset.seconds = (this.end - this.start).toFixed(1);
    this.draw();
    clearTimeout(this.wait);
    this.wait = setTimeout(async () => {
      const turn = this.asked += 1;
      const room = (this.end - this.start) / 2; // some more on either side, for panning
      const [start, end] = [Math.max(0, this.start - room), Math.min(this.duration, this.end + room)];
      const data = await this.load(start, end, Math.min(4000, Math.max(50, this.canvas.clientWidth * 2)));
      if (turn !== this.asked || !data) return;
      data.answers = data.picks.filter((pick) => pick.kind === "answered");
      data.picks = data.picks.map((pick) => ({ ...pick, text: "" })); // captions have a lane of their own
      this.data = data;
      this.setLanes();
      this.draw();
    }, this.data ? 80 : 0);
  }

  /** Only lanes with something in them; one that was there stays while the user zooms. */
  setLanes() {
    const { data } = this, has = (name, isThere) => isThere || this.lanes.some((lane) => lane.name === name);
    const all = [["ruler", "", 22, true], ["level", "sound", CURVE, data?.level.length], ["score", "score", CURVE, data?.score.some((value) => value > 0)],
      ...(data?.sounds || []).map((sound, place) => [`sound ${place}`, sound.name, LANE, sound.entries.length]),
      ["speech", "speech", LANE, data?.speech.length], ["picks", "chosen", LANE, data?.picks.length], ["answers", "answers", 22, data?.answers.length],
      ["corrections", "corrections", 22, this.onMark]];
    let top = 0;
    this.lanes = all.filter(([name, , , isThere]) => has(name, isThere)).map(([name, words, high]) => { const lane = { name, words, top, high }; top += high; return lane; });
    this.canvas.style.height = `${top}px`;
    this.canvas.dataset.lanes = this.lanes.map((lane) => lane.words).filter(Boolean).join();
  }

  /** The entries of a lane. */
  entriesOf(name) {
    const number = /^sound (\d+)$/.exec(name)?.[1];
    if (number === undefined) return this.data[name] || [];
    return (this.data.sounds[number]?.entries || []).map(([start, end]) => ({ start, end, kind: "heard" }));
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const { canvas, data } = this, wide = canvas.clientWidth, high = canvas.clientHeight;
    if (!wide) return;
    const [pen, colour] = penOf(canvas);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const lane of this.lanes) {
      pen.fillStyle = colour("line");
      pen.fillRect(0, lane.top + lane.high - 1, wide, 1);
      pen.fillStyle = colour("quiet");
      if (this.gutter) pen.fillText(fit(pen, lane.words, this.gutter - 12), 8, lane.top + lane.high / 2);
    }
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, 0, this.room, high);
    pen.clip();
    const kinds = { answered: colour("mark"), failed: colour("bad"), right: colour("good"), wrong: colour("bad"), reworded: colour("score"), missed: colour("mark") };
    for (const lane of this.lanes) {
      if (lane.name === "ruler") this.paintRuler(pen, lane, colour);
      else if (data && (lane.name === "level" || lane.name === "score")) this.paintCurve(pen, lane, data, colour(lane.name === "level" ? "sound" : "score"));
      else if (data) this.paintEntries(pen, lane, this.entriesOf(lane.name), (entry) => kinds[entry.status || entry.kind || entry.verdict] || colour("sound-picked"), colour);
    }
    for (const gap of data?.gaps || []) { // what could not be heard
      pen.fillStyle = colour("bad");
      pen.globalAlpha = 0.25;
      pen.fillRect(this.x(gap.start), 0, Math.max(1, this.x(gap.end) - this.x(gap.start)), high);
      pen.globalAlpha = 1;
    }
    if (this.draft) {
      const [a, b] = this.draft.map((time) => this.x(time));
      pen.fillStyle = colour("mark");
      pen.globalAlpha = 0.3;
      pen.fillRect(Math.min(a, b), 0, Math.abs(b - a), high);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = colour("ink");
    for (const mark of this.marks) drawFlag(pen, this.x(mark), 0, high);
    pen.fillRect(this.x(this.now) - 1, 0, 2, high);
    pen.restore();
    if (this.gutter) return;
    pen.fillStyle = colour("quiet"); // no room beside the lanes: their names are within
    for (const lane of this.lanes) pen.fillText(lane.words, 4, lane.top + (lane.name === "level" || lane.name === "score" ? 8 : lane.high / 2));
  }

  paintRuler(pen, lane, colour) {
    const span = this.end - this.start, step = STEPS.find((each) => (this.room * each) / span > 74) || STEPS.at(-1);
    pen.fillStyle = colour("quiet");
    for (let time = Math.ceil(this.start / step) * step; time <= this.end; time += step) {
      pen.fillRect(this.x(time), lane.top + lane.high - 6, 1, 6);
      const day = timeOfDay(this.began, time), whole = day ? (step < 60 ? day : day.slice(0, 5)) : clock(time);
      pen.fillText(step < 1 ? `${whole}.${Math.round((time % 1) * 10) % 10}` : whole, this.x(time) + 3, lane.top + 9);
    }
  }

  paintCurve(pen, lane, data, fill) {
    const values = data[lane.name];
    if (!values.length) return;
    pen.fillStyle = fill;
    const step = (data.end - data.start) / values.length;
    const each = Math.max(1, this.x(data.start + step) - this.x(data.start));
    values.forEach((value, place) => {
      const x = this.x(data.start + place * step), tall = Math.max(1, (value / 100) * (lane.high - 14));
      if (x > -each && x < this.canvas.clientWidth) pen.fillRect(x, lane.top + lane.high - 2 - tall, each + 0.5, tall);
    });
  }

  paintEntries(pen, lane, entries, paint, colour) {
    for (const entry of entries) {
      if (entry.withdrawn) continue;
      const { start, end } = entry.span || entry, x = this.x(start), wide = Math.max(2, this.x(end) - x - 1);
      if (x > this.canvas.clientWidth || x + wide < 0) continue;
      pen.fillStyle = paint(entry);
      pen.globalAlpha = entry.kind === "heard" || entry.kind === "said" ? 0.45 : 0.85;
      pen.fillRect(x, lane.top + MARGIN, wide, lane.high - 2 * MARGIN);
      pen.globalAlpha = 1;
      const text = entry.text || entry.verdict;
      if (wide > 60 && text) {
        pen.save();
        pen.beginPath();
        pen.rect(x, lane.top, wide, lane.high);
        pen.clip();
        pen.fillStyle = colour("ink");
        pen.fillText(text, Math.max(this.gutter + 4, x + 4), lane.top + lane.high / 2);
        pen.restore();
      }
    }
  }

  onWheel(event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = ((event.deltaX || event.deltaY) / this.room) * (this.end - this.start);
      this.show(this.start + by, this.end + by);
    } else this.zoom(1.2 ** Math.sign(event.deltaY), this.time(event.offsetX));
  }

  onDown(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    const lane = this.lanes.findLast((each) => event.offsetY >= each.top);
    this.drag = { x: event.offsetX, start: this.start, end: this.end, isMark: this.onMark && (event.shiftKey || lane?.name === "corrections"), moved: false };
  }

  onMove(event) {
    const { drag } = this;
    if (!drag) return;
    drag.moved ||= Math.abs(event.offsetX - drag.x) > 4;
    if (!drag.moved) return;
    const by = ((event.offsetX - drag.x) / this.room) * (drag.end - drag.start);
    if (drag.isMark) { this.draft = [this.time(drag.x), this.time(event.offsetX)]; this.draw(); }
    else this.show(drag.start - by, drag.end - by);
  }

  onUp(event) {
    const { drag, draft } = this;
    this.drag = null;
    if (!drag) return;
    if (!drag.moved) this.onSeek(Math.min(this.duration, Math.max(0, this.time(event.offsetX))));
    else if (draft) {
      const [start, end] = draft.map((time) => Math.min(this.duration, Math.max(0, time))).sort((a, b) => a - b);
      this.onMark(start, end);
    }
  }
}

/** A text cut to a width in pixels. */
function fit(pen, text, most) {
  let shown = text;
  while (shown.length > 3 && pen.measureText(shown).width > most) shown = `${shown.slice(0, -2)}…`;
  return shown;
}
