// The dialog for a new run: choose recordings and a budget, see the forecast, then start.
import { button, lasting, make, percent, plural, whole } from "./parts.js";
import { call, showError, showMessage } from "./api.js";
import { choices } from "./controls.js";

const POLL_MS = 500;

export async function openRunDialog(place, go) {
  const sources = await call("/sources");
  if (!place.isConnected || place.querySelector("dialog")) return; // the user went elsewhere, or clicked twice
  const dialog = make("dialog", "plan-dialog"), form = make("form"), output = make("div", "forecast");
  output.setAttribute("role", "status");
  const list = make("select");
  Object.assign(list, { multiple: true, size: Math.min(10, Math.max(3, sources.length)) });
  list.append(...choices(sources.map((one) => [one.id, one.name])));
  if (sources.length === 1) list.selectedIndex = 0;
  const field = (words, input) => make("label", "field", make("span", "", words), input);
  const budget = make("input"), across = make("input"), name = make("input");
  budget.value = "25%";
  Object.assign(across, { type: "checkbox", checked: true }); // what is forecast is what is started
  name.placeholder = "after the first recording";
  const request = () => ({ sources: [...list.selectedOptions].map((option) => option.value), budget: budget.value, across: across.checked, name: name.value });
  const forecasted = () => JSON.stringify([request().sources, request().budget]);
  const forecast = button("", "Forecast", () => {
    const asked = forecasted();
    showForecast(request(), output).then(() => { start.disabled = asked !== forecasted(); }).catch(showError);
  });
  const start = button("", "Start", () => {
    const asked = forecasted();
    start.disabled = true; // a second click would start, and pay for, a second run
    startRun(request(), dialog, go).catch((error) => { start.disabled = asked !== forecasted(); showError(error); });
  });
  start.disabled = true; // enabled by a forecast
  for (const input of [list, budget]) input.addEventListener("input", () => { start.disabled = true; });
  dialog.addEventListener("close", () => dialog.remove());
  form.append(make("h2", "", "New run"), field("Recordings", list), field("Budget: a share of the windows, calls, or price=0.4", budget),
    make("label", "", across, " one budget for all recordings, as in the forecast, instead of one each"), field("Name", name), output, make("div", "tools", forecast, start, button("", "Close", () => dialog.close())));
  form.addEventListener("submit", (event) => event.preventDefault());
  dialog.append(form);
  place.append(dialog);
  dialog.showModal();
}

async function waitForJob(job, output) {
  let now = job;
  while (now.state === "at work") {
    const p = now.progress;
    output.textContent = p.recordings ? `Listening: ${whole(p.heard)} of ${plural(p.recordings, "recording")}` : "Listening …";
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    now = await call(`/jobs/${now.id}`);
  }
  if (now.state !== "done") throw new Error(now.failure || now.state);
  return now.result;
}

/** The expected number of actions, with its interval. */
function describeActions({ actions, actions_range: range }) {
  if (actions === null) return "";
  const rangeText = !range || range.is_unlike ? "" : `, ${whole(Math.round(range.low))} to ${whole(Math.round(range.high))} in ${percent(range.confidence, 1)} of recordings`;
  return `; about ${whole(Math.round(actions))} actions expected${rangeText}`;
}

async function showForecast(request, output) {
  const result = await waitForJob(await call("/forecasts", { method: "POST", body: request }), output);
  const rows = result.rungs.map((rung) => make("tr", "", make("td", "", percent(rung.share, 1)), make("td", "", whole(rung.calls)),
    make("td", "", rung.coverage === null ? "–" : percent(rung.coverage, 1)),
    make("td", "", !rung.range ? "–" : rung.range.is_unlike ? "0–100 % (unlike any measured)" : `${whole(100 * rung.range.low)}–${whole(100 * rung.range.high)} %`), make("td", "", rung.money ? rung.money.toPrecision(3) : "–")));
  const sure = result.rungs.find((rung) => rung.range)?.range.confidence ?? 0.8;
  const head = make("tr", "", ...["share of windows", "calls", "actions reached", `range that holds ${percent(sure, 1)} of recordings`, "price at most"].map((text) => make("th", "", text)));
  output.replaceChildren(make("p", "", `${plural(result.recordings, "recording")}, ${lasting(result.duration)}${describeActions(result)}`), make("table", "", head, ...rows));
}

async function startRun(request, dialog, go) {
  const job = await call("/runs", { method: "POST", body: request });
  dialog.close();
  showMessage("Started.");
  for (let turn = 0; turn < 60; turn += 1) {
    const now = await call(`/jobs/${job.id}`);
    if (now.run) { go(`/run/${now.run}`); return; }
    if (now.state === "failed") throw new Error(now.failure);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
