// The state of a watch while it runs: every source, the calls left, the picks that wait.
import { make, plural, whole } from "./parts.js";

const STATES = { listening: "good", connecting: "quiet", ended: "quiet", lost: "bad", broken: "bad" };
const timeOf = (instant) => new Date(instant).toLocaleTimeString();

/** Elements for the run's head. `watch` is what the run stores of itself every few seconds. */
export function describeWatch(watch, isAtWork) {
  const sources = watch.sources.map(({ name, state, reason, until }) => {
    const word = isAtWork ? state : "not watched";
    const facts = [until ? `heard until ${timeOf(until)}` : "", isAtWork ? reason : ""].filter(Boolean).join(" · ");
    return make("li", "source", make("b", "", name), " ", make("span", isAtWork ? STATES[state] || "quiet" : "quiet", word), " ", make("span", "quiet", facts));
  });
  const rate = `${whole(Math.floor(watch.calls_left))} calls left now, ${plural(watch.calls_per_hour, "call")} per hour`;
  const waiting = watch.waiting ? `${plural(watch.waiting, "pick")} waiting for the model` : "no pick waits";
  return [make("span", "pill", isAtWork ? "watching" : "not running"), make("span", "", rate), make("span", "", waiting),
    watch.model ? make("span", "bad", watch.model) : null, make("ul", "sources", ...sources)];
}
