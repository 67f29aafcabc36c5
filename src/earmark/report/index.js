const at = Object.fromEntries(run.columns.map((name, place) => [name, place]));
const tenths = (part) => (part === null ? "–" : `${(100 * part).toFixed(1)} %`);
const between = (part, row) => (row[at.low] === null ? tenths(part) : `${tenths(part)} (${whole(100 * row[at.low])}–${whole(100 * row[at.high])}%)`);
const lasted = (value) => (value === null ? "–" : clock(value));
const money = (value) => (value ? value.toPrecision(3) : "–");

function head() {
  const hours = run.totals.duration / 3600, opened = run.opened.slice(0, 16).replace("T", " ").replaceAll("-", "\u2011");
  fillFrame(run, `${plural(run.recordings.length, "recording")}, ${hours.toFixed(1)} hours; started ${opened} UTC`);
}

const pageAt = ({ recording, start }) => `${run.pages[recording]}#t=0,${start.toFixed(1)}`;
const host = {
  picture: ({ image }) => (image ? `data:image/jpeg;base64,${image}` : ""),
  media: ({ recording, start }) => {
    const file = run.files[recording]?.findLast(([link, from]) => link && from <= start);
    return file ? [file[0], start - file[1]] : null;
  },
  link: pageAt,
  search: (words) => { location.href = pageAt(run.day.lines.find((line) => line.name === words).moments[0]); },
};

function totals() {
  const t = run.totals;
  $("totals").append(
    figure("Captioned", whole(t.answered), `of ${plural(t.picks, "pick")}`, share(t.answered, t.picks)),
    figure("Picked", whole(t.picks), `of ${plural(t.windows, "window")}`, share(t.picks, t.windows)),
    foretold(run.coverage),
    figure("Failed", whole(t.failed + run.missed.length), `${plural(t.failed, "call")}, ${plural(run.missed.length, "recording")}`, null),
    figure("Tokens", whole(t.prompt_tokens + t.completion_tokens), t.spend ? `${money(t.spend)} spent (in the currency of your prices)` : "in and out", null),
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
  $("forecast").hidden = false;
  $("sure").textContent = run.sure && ` ${run.sure}`;
  const box = $("curve"), width = Math.max(240, box.clientWidth);
  const left = 48, right = width - 6, top = 14, bottom = 222;
  box.setAttribute("viewBox", `0 0 ${width} 260`);
  box.replaceChildren();
  const most = run.curve.at(-1)[0];
  const x = (calls) => left + (right - left) * calls / most;
  const y = (part) => bottom - (bottom - top) * part;
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    box.append(drawn("line", { class: "grid", x1: left, x2: right, y1: y(part), y2: y(part) }));
    box.append(drawn("text", { x: left - 8, y: y(part) + 4, "text-anchor": "end" }, `${100 * part} %`));
  }
  for (const part of width < 480 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1])
    box.append(drawn("text", { x: x(part * most), y: bottom + 20, "text-anchor": part === 1 ? "end" : "middle" }, whole(Math.round(part * most))));
  box.append(drawn("text", { x: right, y: bottom + 36, "text-anchor": "end" }, "calls"));
  const points = run.curve.map(([calls, part]) => `${x(calls)},${y(part)}`).join(" ");
  box.append(drawn("polygon", { class: "area", points: `${left},${bottom} ${points} ${right},${bottom}` }));
  const band = [...run.curve.map(([calls, , , high]) => [calls, high]), ...run.curve.map(([calls, , low]) => [calls, low]).reverse()];
  if (run.curve.every((point) => point.length === 4))
    box.append(drawn("polygon", { class: "range", points: band.map(([calls, part]) => `${x(calls)},${y(part)}`).join(" ") }));
  box.append(drawn("polyline", { class: "line", points }));
  const calls = run.totals.picks, part = run.coverage.share ?? 0;
  box.append(drawn("line", { class: "now-line", x1: x(calls), x2: x(calls), y1: y(part), y2: bottom }));
  box.append(drawn("circle", { class: "now", cx: x(calls), cy: y(part), r: 5 }));
  const words = `this run: ${plural(calls, "call")}, ${tenths(part)}`;
  const anchor = x(calls) > width * 0.6 ? "end" : "start";
  box.append(drawn("text", { class: "now-words", x: x(calls) + (anchor === "end" ? -12 : 12), y: Math.min(bottom - 8, y(part) + 18), "text-anchor": anchor }, words));
  box.setAttribute("aria-label", `Expected coverage against calls; ${words}; ${run.coverage.sure}`);
}

const SHOWN = [
  ["Recording", "name", (value) => value],
  ["Length", "duration", clock],
  ["Active", "active", lasted],
  ["Windows", "windows", whole],
  ["Picks", "picks", whole],
  ["Captioned", "answered", whole],
  ["Failed", "failed", whole],
  ["Coverage", "coverage", between],
  ["Spend", "spend", money],
];

function rowOf(recording) {
  const row = make("tr");
  for (const [, name, say] of SHOWN) {
    const value = recording[at[name]], cell = make("td");
    if (name === "name") {
      const link = make("a", "", value);
      link.href = recording[at.page];
      link.title = recording[at.path];
      cell.append(link);
    } else {
      cell.textContent = say(value, recording);
      if (name === "coverage") cell.title = recording[at.words];
    }
    if (name === "failed" && value > 0) cell.className = "bad";
    row.append(cell);
  }
  return row;
}

const rows = run.recordings.map((recording) => ({ recording, text: `${recording[at.name]} ${recording[at.path]}`.toLowerCase() }));
// Recordings in which something happened come first.
const fullest = ["active", "picks"].find((name) => run.recordings.some((recording) => recording[at[name]] > 0));
let sorted = { name: fullest || "path", falls: Boolean(fullest) };
let filter = "all";
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

const AT_ONCE = 100;
let room = AT_ONCE;

function show() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = FILTERS.find(([name]) => name === filter)[2];
  const found = rows.filter(({ recording, text }) => holds(recording) && words.every((word) => text.includes(word)));
  found.sort(compare);
  $("rows").replaceChildren(...found.slice(0, room).map((row) => (row.node ??= rowOf(row.recording))));
  $("more").hidden = found.length <= room;
  $("more").textContent = `Show all ${plural(found.length, "recording")}`;
  $("found").textContent = found.length === rows.length ? plural(rows.length, "recording") : `${whole(found.length)} of ${plural(rows.length, "recording")}`;
  for (const cell of $("columns").children) {
    const isThis = cell.dataset.name === sorted.name || (cell.dataset.name === "name" && sorted.name === "path");
    cell.setAttribute("aria-sort", isThis ? (sorted.falls ? "descending" : "ascending") : "none");
  }
}

function columns() {
  for (const [title, name] of SHOWN) {
    const cell = make("th", "", button("", title, () => {
      const isAgain = sorted.name === name;
      sorted = { name, falls: isAgain ? !sorted.falls : name !== "name" };
      show();
    }));
    cell.scope = "col";
    cell.dataset.name = name;
    $("columns").append(cell);
  }
  $("filters").append(...makeFilters(FILTERS, (name) => { filter = name; show(); }));
}

head();
$("overview").append(makeDay(run.day, host));
Object.assign($("search"), { placeholder: "Search recordings by name or path", ariaLabel: "Search recordings by name or path" });
totals();
new ResizeObserver(forecast).observe($("totals"));
columns();
$("search").addEventListener("input", show);
$("more").addEventListener("click", () => { room = Infinity; show(); });
document.addEventListener("keydown", (event) => {
  const isTyping = event.target === $("search");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !isTyping) { event.preventDefault(); $("search").focus(); }
  else if (event.key === "Escape" && isTyping) { $("search").value = ""; show(); }
});
show();
