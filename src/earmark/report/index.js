"use strict";
const run = JSON.parse(document.getElementById("data").textContent);
const at = Object.fromEntries(run.columns.map((name, place) => [name, place]));
const byId = (id) => document.getElementById(id);

function make(kind, words, className) {
  const node = document.createElement(kind);
  if (words !== undefined) node.textContent = words;
  if (className) node.className = className;
  return node;
}

const whole = new Intl.NumberFormat("en");
const count = (value) => whole.format(value);
const share = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
const money = (value) => (value ? value.toPrecision(3) : "–");
function clock(seconds) {
  const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

function head() {
  document.title = `${run.title} · earmark`;
  byId("title").textContent = run.title;
  const hours = run.totals.duration / 3600;
  byId("subtitle").textContent =
    `${count(run.recordings.length)} recordings, ${hours.toFixed(1)} hours; started ${run.opened.slice(0, 16).replace("T", " ")} UTC`;
  byId("plan").textContent = JSON.stringify(run.plan, null, 2);
  byId("made").textContent = `Made by earmark ${run.version}.`;
}

function figure(name, value, of, part) {
  const box = make("div", undefined, "figure");
  box.append(make("div", name, "name"), make("div", value, "value"));
  if (part !== undefined) {
    const meter = make("div", undefined, "meter"), fill = make("i");
    fill.hidden = !(part > 0);
    fill.style.width = `${Math.min(100, 100 * part)}%`;
    meter.append(fill);
    box.append(meter);
  }
  if (of) box.append(make("div", of, "of"));
  return box;
}

function totals() {
  const t = run.totals;
  const covered = t.expected ? t.touched / t.expected : null;
  byId("totals").append(
    figure("Captioned", count(t.answered), `of ${count(t.picks)} picks`, t.picks ? t.answered / t.picks : 0),
    figure("Calls", count(t.picks), `of ${count(t.windows)} windows`, t.windows ? t.picks / t.windows : 0),
    figure("Expected coverage", share(covered), "of actions touched", covered ?? 0),
    figure("Failed", count(t.failed + run.missed.length), `${count(t.failed)} calls, ${count(run.missed.length)} recordings`),
    figure("Tokens", count(t.prompt_tokens + t.completion_tokens), t.spend ? `${money(t.spend)} in money` : "in and out"),
  );
}

function drawn(kind, attributes, words) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (words !== undefined) node.textContent = words;
  return node;
}

function forecast() {
  if (run.curve.length < 2) return;
  byId("forecast").hidden = false;
  const box = byId("curve"), left = 52, right = 700, top = 14, bottom = 222;
  const most = run.curve.at(-1)[0];
  const x = (calls) => left + (right - left) * calls / most;
  const y = (part) => bottom - (bottom - top) * part;
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    box.append(drawn("line", { class: "grid", x1: left, x2: right, y1: y(part), y2: y(part) }));
    box.append(drawn("text", { x: left - 8, y: y(part) + 4, "text-anchor": "end" }, `${100 * part} %`));
  }
  for (const part of [0, 0.25, 0.5, 0.75, 1])
    box.append(drawn("text", { x: x(part * most), y: bottom + 20, "text-anchor": "middle" }, count(Math.round(part * most))));
  box.append(drawn("text", { x: right, y: bottom + 36, "text-anchor": "end" }, "calls"));
  const points = run.curve.map(([calls, part]) => `${x(calls)},${y(part)}`).join(" ");
  box.append(drawn("polygon", { class: "area", points: `${left},${bottom} ${points} ${right},${bottom}` }));
  box.append(drawn("polyline", { class: "line", points }));
  const calls = run.totals.picks, part = run.totals.expected ? run.totals.touched / run.totals.expected : 0;
  box.append(drawn("line", { class: "now-line", x1: x(calls), x2: x(calls), y1: y(part), y2: bottom }));
  box.append(drawn("circle", { class: "now", cx: x(calls), cy: y(part), r: 5 }));
  const words = `this run: ${count(calls)} calls, ${share(part)}`;
  const anchor = x(calls) > 480 ? "end" : "start";
  box.append(drawn("text", { class: "now-words", x: x(calls) + (anchor === "end" ? -12 : 12), y: Math.min(bottom - 8, y(part) + 18), "text-anchor": anchor }, words));
  box.setAttribute("aria-label", `Expected coverage against calls; ${words}`);
}

function missed() {
  if (!run.missed.length) return;
  const place = byId("missed"), details = make("details"), list = make("ul");
  place.hidden = false;
  details.open = run.missed.length <= 10;
  details.append(make("summary", "Which, and why"));
  for (const one of run.missed) list.append(make("li", `${one.path}: ${one.reason}`));
  details.append(list);
  place.append(make("h2", `${count(run.missed.length)} recordings could not be done`), details);
}

const SHOWN = [
  ["Recording", "name", (value) => value],
  ["Length", "duration", clock],
  ["Windows", "windows", count],
  ["Picks", "picks", count],
  ["Captioned", "answered", count],
  ["Failed", "failed", count],
  ["Coverage", "coverage", share],
  ["Spend", "spend", money],
];

function rowOf(recording) {
  const row = make("tr");
  for (const [, name, say] of SHOWN) {
    const value = recording[at[name]], cell = make("td");
    if (name === "name") {
      const link = make("a", value);
      link.href = recording[at.page];
      link.title = recording[at.path];
      cell.append(link);
    } else {
      cell.textContent = say(value);
    }
    if (name === "failed" && value > 0) cell.className = "bad";
    row.append(cell);
  }
  return row;
}

const rows = run.recordings.map((recording) => ({ recording, node: rowOf(recording), text: `${recording[at.name]} ${recording[at.path]}`.toLowerCase() }));
let sorted = { name: "path", falls: false }, filter = "all";
const FILTERS = [
  ["all", "All", () => true],
  ["failed", "With failures", (recording) => recording[at.failed] > 0],
  ["open", "Not all captioned", (recording) => recording[at.answered] < recording[at.picks]],
];
const order = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  const one = a.recording[at[sorted.name]], other = b.recording[at[sorted.name]];
  if (one === null || other === null) return (one === null) - (other === null);
  const way = typeof one === "string" ? order.compare(one, other) : one - other;
  return sorted.falls ? -way : way;
}

function show() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = FILTERS.find(([name]) => name === filter)[2];
  const found = rows.filter(({ recording, text }) => holds(recording) && words.every((word) => text.includes(word)));
  found.sort(compare);
  byId("rows").replaceChildren(...found.map(({ node }) => node));
  byId("found").textContent = found.length === rows.length ? `${count(rows.length)} recordings` : `${count(found.length)} of ${count(rows.length)}`;
  for (const cell of byId("columns").children) {
    const isThis = cell.dataset.name === sorted.name || (cell.dataset.name === "name" && sorted.name === "path");
    cell.setAttribute("aria-sort", isThis ? (sorted.falls ? "descending" : "ascending") : "none");
  }
}

function columns() {
  for (const [title, name] of SHOWN) {
    const cell = make("th"), button = make("button", title);
    cell.scope = "col";
    cell.dataset.name = name;
    button.type = "button";
    button.addEventListener("click", () => {
      const isAgain = sorted.name === name;
      sorted = { name, falls: isAgain ? !sorted.falls : name !== "name" };
      show();
    });
    cell.append(button);
    byId("columns").append(cell);
  }
  for (const [name, title] of FILTERS) {
    const button = make("button", title);
    button.type = "button";
    button.setAttribute("aria-pressed", String(name === filter));
    button.addEventListener("click", () => {
      filter = name;
      for (const other of byId("filters").children) other.setAttribute("aria-pressed", String(other === button));
      show();
    });
    byId("filters").append(button);
  }
}

head();
totals();
forecast();
missed();
columns();
byId("search").addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== byId("search")) {
    event.preventDefault();
    byId("search").focus();
  }
});
show();
