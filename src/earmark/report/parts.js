// Functions that every page uses. A server sends this file as a module; in a page that opens from
// disk it precedes the script of the page. All content is set as text and never parsed as markup.
export const $ = (id) => document.getElementById(id);

/** An element of a kind with a class name and children, which may be text; null children are skipped. */
export function make(kind, name, ...children) {
  const element = document.createElement(kind);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function button(name, text, act, label) {
  const made = make("button", name, text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

// ---- numbers as text -------------------------------------------------------------------

export const whole = (value) => Math.round(value).toLocaleString("en");
export const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
export const share = (part, all) => (all > 0 ? Math.min(1, part / all) : 0);
export const percent = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part / all < 0.1 ? 1 : 0)} %` : "–");

/** The time of day `seconds` after an ISO 8601 time, in the zone of that time; empty if unknown. */
export function timeOfDay(began, seconds) {
  const start = Date.parse(`${(began || "").slice(0, 19)}Z`);
  return Number.isNaN(start) ? "" : new Date(start + seconds * 1000).toISOString().slice(11, 19);
}

export function clock(seconds) {
  const total = Math.max(0, Math.floor(Math.round(seconds * 10) / 10)); // rounded to tenths first, as the command line does
  const [hours, minutes, rest] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export function lasting(seconds) {
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 599.5) {
    const [whole, rest] = [Math.floor(Math.round(seconds) / 60), Math.round(seconds) % 60];
    return rest ? `${whole} min ${rest} s` : `${whole} min`;
  }
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}

export function size(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (count >= 1000 && place < units.length - 1) { count /= 1000; place += 1; }
  return `${place && count < 10 ? count.toFixed(1) : Math.round(count)} ${units[place]}`;
}

/** Why a recording could not be processed; its path is added unless the reason names its file. */
function why({ path, reason, name }) {
  const said = reason.includes(path.split("/").at(-1)) ? reason : `${path}: ${reason}`;
  return name ? `${name}: ${said}` : said;
}

export function meter(part) {
  const fill = make("i");
  fill.style.width = `${100 * part}%`;
  fill.hidden = !part;
  return make("div", "meter", fill);
}

export function figure(name, value, of, part) {
  return make("div", "figure", make("p", "name", name), make("p", "value", value),
    part === null ? null : meter(part), make("p", "of", of));
}

/** Recordings that could not be processed, with the reasons; null if there are none. */
export function listMissed(missed) {
  if (!missed.length) return null;
  const details = make("details", "", make("summary", "", `${plural(missed.length, "recording")} could not be processed`),
    make("ul", "", ...missed.map((recording) => make("li", "", why(recording)))));
  details.open = missed.length <= 10;
  return details;
}

/** Buttons of which one is pressed, the first at the beginning; `onChoose` gets its value. */
export function makeFilters(pairs, onChoose) {
  const buttons = pairs.map(([value, text]) => button("", text, (event) => { press(event.currentTarget); onChoose(value); }));
  const press = (chosen) => buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === chosen)));
  press(buttons[0]);
  return buttons;
}

/** The head and foot of a page that opens from disk. */
export function fillFrame(run, subtitle) {
  document.title = `${run.title} – earmark`;
  $("title").textContent = run.title;
  $("subtitle").textContent = subtitle;
  $("plan").textContent = JSON.stringify(run.plan, null, 2);
  $("made").textContent = `earmark ${run.version}`;
  $("missed").hidden = !run.missed.length;
  $("missed").append(listMissed(run.missed) || "");
}

// ---- drawings -----------------------------------------------------------------------------------

/** A pen for a cleared canvas, in CSS pixels, and a function that gives the colours of the page by name. */
export function penOf(canvas) {
  const scale = devicePixelRatio || 1, [wide, high] = [canvas.clientWidth, canvas.clientHeight].map((length) => Math.round(length * scale));
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  const colours = {}; // cached: reading a style is slow, and a long recording has very many windows
  return [pen, (name) => (colours[name] ??= style.getPropertyValue(`--${name}`).trim())];
}

/** Draws a flag at `x`, from `top` to `foot`, in pixels. */
export function drawFlag(pen, x, top, foot) {
  pen.fillRect(x - 0.5, top, 1, foot - top);
  pen.fillRect(x, top, 6, 5);
}

const MOST_MARKS = 60;

/** The marks set on the camera as buttons; null if there are none. */
export function makeMarks(marks, onClick) {
  if (!marks.length) return null;
  const shown = marks.slice(0, MOST_MARKS).map((time) => button("", clock(time), () => onClick(time), `Go to the mark at ${clock(time)}`));
  const rest = marks.length - shown.length;
  return make("p", "marks", "Marked on the camera:", ...shown, rest ? `and ${whole(rest)} more` : null);
}

/** A forecast of coverage with its range. */
export function foretold({ share: part, range, sure, actions }) {
  const said = part === null ? "no forecast for this run" : [sure, `of ${actions || "the actions expected"}`].filter(Boolean).join(" · ");
  const shown = figure("Coverage forecast", part === null ? "–" : percent(part, 1), said, part ?? 0);
  if (range) {
    const band = make("b");
    Object.assign(band.style, { left: `${100 * range[0]}%`, width: `${100 * (range[1] - range[0])}%` });
    shown.querySelector(".meter").append(band);
  }
  return shown;
}
