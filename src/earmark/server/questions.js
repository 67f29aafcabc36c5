// The question box: words list moments at once; a question is answered by the model, its price shown first.
import { button, make, plural } from "./parts.js";
import { call, recordingPath, runPath, showError, showMessage } from "./api.js";
import { field } from "./controls.js";
import { makeParagraph } from "./day.js";
import { listMoments } from "./moments.js";

const SHORTEST_CLIP = 2; // seconds

/** Where the pictures, files, clips and pages of moments are; of several runs if none is given. */
export function hostOf(run = "") {
  const own = (moment) => run || moment.run;
  return {
    isHere: true, // links lead to views of this page
    picture: (moment) => (moment.picture ? `/api${recordingPath(own(moment), moment.recording, `/picture?${new URLSearchParams({ start: moment.picture[0], end: moment.picture[1] })}`)}` : ""),
    media: (moment) => [`/media/${encodeURIComponent(own(moment))}/${encodeURIComponent(moment.recording)}/${moment.part}`, moment.file_start],
    link: (moment) => `/run/${encodeURIComponent(own(moment))}/${encodeURIComponent(moment.recording)}#t=${moment.start.toFixed(1)}`,
    clip: ({ start, end, ...moment }) => `/api${recordingPath(own(moment), moment.recording, `/clip?${new URLSearchParams({ start, end: Math.max(end, start + SHORTEST_CLIP) })}`)}`,
  };
}

export class QuestionBox {
  /** `run` is empty for all runs, which can be searched and not asked; `onResults` is told whether results are shown. */
  constructor({ run = "", session = null, onResults = () => {} }) {
    Object.assign(this, { run, session, onResults, host: hostOf(run), turn: 0 });
    const words = run ? "Search moments, or ask: when was the drill used?" : "Search the moments of all runs";
    this.input = field(words, (typed) => this.find(typed).catch(showError), { type: "search", id: "question", placeholder: words });
    this.results = make("section", "results");
    this.results.setAttribute("aria-label", "Moments found");
    this.results.setAttribute("aria-live", "polite");
    this.results.hidden = true;
    this.form = make("form", "question", this.input, run ? make("button", "ask-run", "Ask …") : null);
    this.form.addEventListener("submit", (event) => { event.preventDefault(); if (run) this.ask().catch(showError); });
  }

  search(words) {
    this.input.value = words;
    this.find(words).catch(showError);
    this.input.scrollIntoView({ block: "center" });
  }

  show(...parts) {
    const clear = button("", "Clear", () => { this.input.value = ""; this.show(); });
    this.results.hidden = !parts.length;
    this.results.replaceChildren(...parts, ...(parts.length ? [clear] : []));
    this.onResults(parts.length > 0);
  }

  /** List the moments that contain the words; the answer to the last words typed counts. */
  async find(typed) {
    const turn = this.turn += 1;
    if (!typed.trim()) { this.show(); return; }
    const moments = await call(`${this.run ? runPath(this.run) : ""}/search?${new URLSearchParams({ words: typed, limit: 100 })}`);
    if (turn !== this.turn) return;
    const count = moments.length === 100 ? "the best 100 moments" : plural(moments.length, "moment");
    this.show(make("h2", "", moments.length ? `${count} with “${typed}”` : `No moment has the words “${typed}”`),
      ...(moments.length ? [listMoments(moments, this.host, { name: "Moments found", atFirst: 24 })] : this.run ? [make("p", "quiet", "A question in words needs Ask.")] : []));
  }

  async ask() {
    const question = this.input.value.trim();
    if (!question) { this.input.focus(); return; }
    this.turn += 1; // a search that is under way no longer counts
    const calls = this.session.model ? await this.confirm(question) : 0;
    if (calls === null) return;
    showMessage("Asking …");
    const answer = await call(`${runPath(this.run)}/questions`, { method: "POST", body: { question, calls } });
    showMessage("");
    this.tell(question, answer);
  }

  tell(question, answer) {
    const moments = answer.likeliest.length ? answer.likeliest : [...new Map(answer.sentences.flatMap((sentence) => sentence.citations.map(({ moment }) => [`${moment.recording} ${moment.start} ${moment.end}`, moment]))).values()];
    const notes = [answer.unknown ? `Not known: ${answer.unknown}` : "", answer.left_out ? `${plural(answer.left_out, "sentence")} left out that cited nothing in the run` : "",
      answer.tokens ? `${plural(answer.tokens, "token")} spent in words` : "", answer.bought ? `${plural(answer.bought, "window")} looked at` : "", this.session.model ? "" : "No model was asked: these moments match best."];
    const told = answer.sentences.length ? makeParagraph(answer, this.host) : make("p", "paragraph", moments.length ? "" : "The run does not say.");
    this.show(make("h2", "", question), told, make("p", "quiet", notes.filter(Boolean).join(" · ")), moments.length ? listMoments(moments, this.host, { name: "Sources" }) : "");
  }

  /** The number of windows to look at first, once the user has seen the price; null if cancelled. */
  async confirm(question) {
    const dialog = make("dialog", "ask-dialog"), form = make("form"), price = make("p", "price"), calls = make("input");
    Object.assign(calls, { type: "number", min: 0, max: 1000, value: 0, ariaLabel: "Windows to look at first" });
    const yes = make("button", "yes", "Ask"), no = make("button", "", "Cancel");
    const quote = async () => {
      yes.disabled = true; // until the price is that of this number
      const asked = calls.value || "0", cost = await call(`${runPath(this.run)}/questions?${new URLSearchParams({ question, calls: asked })}`);
      if ((calls.value || "0") !== asked) return;
      price.textContent = `${plural(cost.calls, "call")} to ${cost.model}: ${cost.words}${cost.money ? "" : ", no price set"}.`;
      yes.disabled = false;
    };
    calls.addEventListener("input", () => quote().catch(showError));
    form.method = "dialog";
    [yes.value, no.value] = ["yes", "no"];
    form.append(make("h2", "", question), make("label", "field", make("span", "", "First look for it in this many more windows (0 asks only what is stored)"), calls), price, make("div", "tools", yes, no));
    dialog.append(form);
    document.body.append(dialog);
    dialog.showModal();
    await quote();
    return new Promise((resolve) => dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes" ? Number(calls.value) : null);
      dialog.remove();
    }));
  }
}
