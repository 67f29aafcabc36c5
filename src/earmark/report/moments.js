// A list of moments: picture, time of day, why, play in place, copy a link, cut a clip.
import { button, clock, make, plural, timeOfDay, whole } from "./parts.js";

const AT_FIRST = 12;
const WORDS = { caption: "seen by the model", heard: "heard", said: "said", read: "read", seen: "seen", tags: "heard", marked: "" };

export const fromTo = (start, end) => (clock(start) === clock(end) ? clock(start) : `${clock(start)} – ${clock(end)}`);

let playing = null; // one at a time: a browser keeps few connections to a server

/** The moments as cards, the first ones at first. `host` knows where things are: `picture(moment)` and
    `link(moment)` give addresses, `clip(moment)` one or null, `media(moment)` the file and the second in it, or null;
    `mark(element, text)` may show why a text was found. */
export function listMoments(moments, host, { atFirst = AT_FIRST, name = "Moments" } = {}) {
  const list = make("div", "moments"), more = button("more", "", () => draw(shown * 4));
  let shown = 0;
  const draw = (count) => {
    list.append(...moments.slice(shown, count).map((moment) => makeMoment(moment, host)));
    shown = Math.min(count, moments.length);
    more.hidden = shown >= moments.length;
    more.textContent = `Show more of ${plural(moments.length, "moment")}`;
  };
  list.setAttribute("role", "list");
  list.setAttribute("aria-label", name);
  draw(atFirst);
  return make("div", "moment-list", list, more);
}

export function makeMoment(moment, host) {
  const { start, end, name, began } = moment, day = timeOfDay(began, start);
  const card = make("article", "moment", makeShot(moment, host));
  card.setAttribute("role", "listitem");
  const when = make("a", "when", day || fromTo(start, end));
  when.href = host.link(moment);
  if (host.isHere) when.dataset.link = "";
  const place = make("span", "quiet", [name, day ? fromTo(start, end) : null].filter(Boolean).join(" · "));
  const times = moment.spans.length ? make("span", "pill", `${moment.spans.length}×`) : null;
  card.append(make("div", "body", make("p", "", when, " ", times, times ? " " : null, place), ...tellReasons(moment, host), makeTools(moment, host)));
  return card;
}

function makeShot(moment, host) {
  const shot = make("div", "shot"), picture = host.picture(moment), media = host.media(moment);
  const rest = () => {
    const image = picture ? Object.assign(make("img"), { src: picture, loading: "lazy", alt: `${moment.name} at ${clock(moment.start)}` }) : null;
    const play = media ? button("play", "▶", start, `Play ${moment.name} at ${clock(moment.start)}`) : null;
    shot.replaceChildren(...[image, play, make("span", "length", fromTo(moment.start, moment.end))].filter(Boolean));
  };
  const start = () => {
    playing?.();
    const video = Object.assign(make("video"), { controls: true, playsInline: true, src: `${media[0]}#t=${media[1].toFixed(2)}` });
    video.addEventListener("error", () => shot.replaceChildren(make("p", "failure", "The video cannot be played here.")));
    shot.replaceChildren(video);
    playing = () => { video.removeAttribute("src"); video.load(); rest(); playing = null; };
    video.play().catch(() => {}); // a browser may require a second click; one that cannot play reports it above
  };
  shot.classList.toggle("bare", !picture && !media);
  rest();
  return shot;
}

/** What is said of a moment, each text once: captions in full, the rest in a line for each kind. */
function tellReasons({ reasons, note, failure }, host) {
  const telling = reasons.filter(({ kind }) => kind !== "tags"), own = telling.length ? telling : reasons, lines = [];
  for (const kind of new Set(own.map((reason) => reason.kind))) {
    const texts = new Map(own.filter((reason) => reason.kind === kind).map((reason) => [reason.text, reason]));
    const line = make("p", lines.length ? `reason ${kind}` : `reason lead ${kind}`);
    for (const [place, { text, confidence }] of [...texts.values()].slice(0, 4).entries()) {
      const part = make("span", kind === "said" || kind === "read" ? "quoted" : "");
      if (host.mark) host.mark(part, text); else part.textContent = text;
      line.append(place ? " · " : "", part, confidence === null || confidence === undefined ? "" : make("small", "quiet", ` ${Math.round(100 * confidence)} %`));
    }
    if (texts.size > 4) line.append(` and ${whole(texts.size - 4)} more`);
    if (lines.length && WORDS[kind]) line.prepend(make("small", "quiet", `${WORDS[kind]} `));
    lines.push(line);
  }
  if (failure) lines.unshift(make("p", "failure", `Failed: ${failure}`));
  if (note) lines.push(make("p", "why quiet", note));
  return lines;
}

function makeTools(moment, host) {
  const address = new URL(host.link(moment), location.href).href;
  const copy = button("copy", "Copy link", () => {
    const say = (words) => { copy.textContent = words; setTimeout(() => { copy.textContent = "Copy link"; }, 1500); };
    (navigator.clipboard?.writeText(address) ?? Promise.reject()).then(() => say("Copied"), () => { location.hash = new URL(address).hash; say("In the address bar"); });
  });
  const clip = host.clip?.(moment);
  const cut = clip ? Object.assign(make("a", "button clip", "Clip"), { href: clip, download: "", title: "Download this moment as a video" }) : null;
  return make("div", "moment-tools", copy, cut, host.tools?.(moment) ?? null);
}
