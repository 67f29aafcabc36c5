// Calls of the REST interface; every failure is an Error with one line to show.

export async function call(path, { method = "GET", body, signal } = {}) {
  const options = { method, signal, headers: {} };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  const response = await fetch(`/api${path}`, options);
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem = await response.json().catch(() => ({}));
  const reason = typeof problem.detail === "string" ? problem.detail : (problem.detail || []).map((one) => one.msg).join("; ");
  throw new Error(reason || `the server answered ${response.status}`);
}

/** The API path of a run or a recording, its parts encoded. */
export const runPath = (...parts) => `/runs/${parts.map(encodeURIComponent).join("/")}`;
export const recordingPath = (run, recording, rest = "") => `/runs/${encodeURIComponent(run)}/recordings/${encodeURIComponent(recording)}${rest}`;

export const author = () => document.getElementById("author").value.trim();

/** Show one line in the status area, which screen readers announce. */
export function showMessage(text, isBad = false) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.toggle("bad", isBad);
}

export const showError = (error) => { if (error.name !== "AbortError") showMessage(error.message, true); };

/** Call `onProgress` with the state of a run while its page is visible. A browser keeps six connections
    to a server: hidden pages and background tabs would occupy them, and the next page would wait. */
export function followRun(run, onProgress) {
  let source = null;
  const stop = () => { source?.close(); source = null; };
  const update = () => {
    if (document.hidden) return stop();
    if (source) return;
    source = new EventSource(`/api${runPath(run)}/events`);
    source.addEventListener("progress", (event) => onProgress(JSON.parse(event.data)));
  };
  const listeners = [[document, "visibilitychange", update], [window, "pageshow", update], [window, "pagehide", stop]];
  for (const [place, name, act] of listeners) place.addEventListener(name, act);
  update();
  return { close() { stop(); for (const [place, name, act] of listeners) place.removeEventListener(name, act); } };
}
