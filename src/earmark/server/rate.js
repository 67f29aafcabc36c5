// Blind rating: one caption at a time, of all runs, without the model that wrote it.
import { button, make, whole } from "./parts.js";
import { author, call, recordingPath, showError, showMessage } from "./api.js";

const VERDICTS = { r: "right", p: "partly", w: "wrong" };

export async function showRating(place, { trail }) {
  trail(["Rate captions"]);
  let shown = null, isBusy = false;
  const name = document.getElementById("author");

  async function refresh() {
    if (!author()) return place.replaceChildren(make("h1", "", "Rate captions"), make("p", "none", "Enter your name at the top to begin. You see one caption at a time, and not which model wrote it."));
    const state = await call(`/ratings?${new URLSearchParams({ rater: author() })}`);
    shown = state.next;
    const count = make("p", "quiet", `${whole(state.rated)} of ${whole(state.captions)} rated`);
    if (!shown) return place.replaceChildren(make("h1", "", "Rate captions"), count, make("p", "none", "There is nothing left to rate."));
    const { run, recording, start, end } = shown;
    const span = new URLSearchParams({ start, end }), path = recordingPath(run, recording);
    const picture = Object.assign(make("img", "rated"), { src: `/api${path}/picture?${span}`, alt: "The frame that was shown to the model" });
    picture.addEventListener("error", () => picture.replaceWith(make("p", "quiet", "There is no stored picture.")));
    const clip = Object.assign(make("a", "button", "Clip"), { href: `/api${path}/clip?${span}`, download: "" });
    const buttons = Object.entries(VERDICTS).map(([key, verdict]) => button(verdict, `${verdict[0].toUpperCase()}${verdict.slice(1)} (${key})`, () => rate(verdict)));
    const group = make("div", "judge", ...buttons, clip);
    group.setAttribute("role", "group");
    place.replaceChildren(make("h1", "", "Rate captions"), count, picture, make("p", "caption", shown.caption), group);
  }

  async function rate(verdict) {
    if (!shown || isBusy) return;
    isBusy = true;
    try {
      const { run, recording, start, end } = shown;
      await call(recordingPath(run, recording, "/corrections"), { method: "POST", body: { author: author(), verdict, start, end } });
      showMessage(`${verdict}: kept`);
      await refresh();
    } catch (error) { showError(error); } finally { isBusy = false; }
  }

  const begin = () => refresh().catch(showError);
  name.addEventListener("change", begin);
  await refresh();
  return {
    close: () => name.removeEventListener("change", begin),
    onKey(event) { const verdict = VERDICTS[event.key]; if (verdict) rate(verdict); return Boolean(verdict); },
  };
}
