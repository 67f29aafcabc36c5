// Routes addresses to views, and holds what all views share: breadcrumbs, author name, keys.
import { $, button, lasting, make, plural, whole } from "./parts.js";
import { call, showError, showMessage } from "./api.js";
import { link } from "./controls.js";
import { archiveAddress, showArchive } from "./archive.js";
import { showRecording } from "./recording.js";
import { openRunDialog } from "./planning.js";
import { showRating } from "./rate.js";
import { QuestionBox } from "./questions.js";

let view = null, turn = 0;

/** Go to an address of this page without reloading. */
export function go(address) {
  history.pushState(null, "", address);
  route();
}

export function trail(...steps) {
  $("trail").replaceChildren(...steps.flatMap(([text, address]) => {
    return [make("span", "quiet", "/"), address ? link("", address, text) : make("span", "", text)];
  }));
  document.title = [...steps.map(([text]) => text).reverse(), "earmark"].join(" – ");
}

async function route() {
  const mine = turn += 1, isHere = () => mine === turn; // the user may go elsewhere meanwhile
  const shared = { go, trail: (...steps) => { if (isHere()) trail(...steps); } };
  view?.close?.();
  view = null;
  showMessage("");
  const [, kind, run, recording] = location.pathname.split("/").map(decodeURIComponent);
  const place = make("div", "view");
  $("main").replaceChildren(place);
  try {
    const shown = await (kind === "rate" ? showRating(place, shared) : kind !== "run" ? showRuns(place) : recording ? showRecording(place, run, recording, shared) : showArchive(place, run, shared));
    if (isHere()) view = shown;
    else shown.close?.();
  } catch (error) { if (isHere()) showError(error); }
}

async function showRuns(place) {
  trail();
  const runs = await call("/runs");
  const rows = runs.map((run) => {
    const t = run.totals;
    const facts = run.failure || `${plural(t.recordings, "recording")}, ${lasting(t.duration)} · ${t.asked ? `${whole(t.answered)} of ${plural(t.picks, "moment")} captioned` : `${plural(t.picks, "moment")}, no model asked`}${t.failed ? ` · ${t.failed} failed` : ""}`;
    return make("li", run.failure ? "run bad" : "run", link("run-name", `/run/${run.id}`, run.name), run.is_at_work ? make("span", "pill", "running") : null,
      run.told ? make("p", "told", run.told) : null, make("p", "quiet", facts), make("p", "quiet", run.opened ? `started ${run.opened.slice(0, 16).replace("T", " ")} UTC` : ""));
  });
  const begin = button("", "New run …", () => openRunDialog(place, go).catch(showError));
  const list = make("div"), box = new QuestionBox({ onResults: (isOn) => { list.hidden = isOn; } });
  place.append(make("div", "head-line", make("h1", "", plural(runs.length, "run")), begin, runs.length ? link("button", "/rate", "Rate captions …") : null), ...(runs.length ? [box.form, box.results] : []), list);
  list.append(runs.length ? make("ul", "runs", ...rows) : make("p", "none", "There are no runs in the served folders. Start one here, or with `earmark caption`."));
  return {};
}

// ---- keys -----------------------------------------------------------------------------------

const KEYS = [["/", "search"], ["?", "show these keys"], ["j, k or ↓, ↑", "next and previous recording or pick"], ["Enter", "open, or play from there"],
  ["Space", "play and pause"], ["←, →", "back and forward one second; ten with Shift"], ["+, −, 0", "zoom in, zoom out, show all"],
  ["r, w", "mark the answer right, wrong"], ["e", "reword the answer"], ["m", "start and end a missed moment"], ["a", "ask about this window; shows the price first"],
  ["c", "copy a link to this moment"], ["d", "download the pick as a clip"], ["u", "up to the recordings or the runs"], ["Escape", "close, leave a field"]];

function showKeys() {
  $("key-list").replaceChildren(...KEYS.flatMap(([key, words]) => [make("dt", "", key), make("dd", "", words)]));
  $("keys").showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const isTyping = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && isTyping) { event.target.blur(); return; }
  if (isTyping || document.querySelector("dialog[open]")) return;
  if (event.key === "?") { showKeys(); event.preventDefault(); }
  else if (event.key === "/") { document.querySelector("[type=search]")?.focus(); event.preventDefault(); }
  else if (event.key === "u") go(location.pathname.split("/").length > 3 ? archiveAddress(decodeURIComponent(location.pathname.split("/")[2])) : "/");
  else if (view?.onKey?.(event)) event.preventDefault();
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-link]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
$("help").addEventListener("click", showKeys);
$("author").value = localStorage.getItem("earmark-author") || "";
$("author").addEventListener("change", () => localStorage.setItem("earmark-author", $("author").value.trim()));
window.addEventListener("popstate", route);
route();
