// What the server is asked, and what it answers; every failure is one line that can be shown.

export async function call(path, { method = "GET", body, signal } = {}) {
  const options = { method, signal, headers: {} };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  const answer = await fetch(`/api${path}`, options);
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const said = await answer.json().catch(() => ({}));
  const why = typeof said.detail === "string" ? said.detail : (said.detail || []).map((one) => one.msg).join("; ");
  throw new Error(why || `the server answered ${answer.status}`);
}

/** An address below a run or a recording, its parts quoted. */
export const at = (...parts) => `/runs/${parts.map(encodeURIComponent).join("/")}`;
export const inRecording = (run, recording, rest = "") => `/runs/${encodeURIComponent(run)}/recordings/${encodeURIComponent(recording)}${rest}`;

export const author = () => document.getElementById("author").value.trim();

/** One line for whoever looks or listens. */
export function say(text, isBad = false) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.toggle("bad", isBad);
}

export const tell = (error) => { if (error.name !== "AbortError") say(error.message, true); };

/** Tell `onProgress` how a run goes while its page is looked at. A browser keeps six connections to a
    server: pages left behind and tabs in the background would hold them, and the next page would wait. */
export function follow(run, onProgress) {
  let source = null;
  const stop = () => { source?.close(); source = null; };
  const turn = () => {
    if (document.hidden) return stop();
    if (source) return;
    source = new EventSource(`/api${at(run)}/events`);
    source.addEventListener("progress", (event) => onProgress(JSON.parse(event.data)));
  };
  const turns = [[document, "visibilitychange", turn], [window, "pageshow", turn], [window, "pagehide", stop]];
  for (const [place, name, act] of turns) place.addEventListener(name, act);
  turn();
  return { close() { stop(); for (const [place, name, act] of turns) place.removeEventListener(name, act); } };
}
