// Controls that several views have: links within the page, search fields, entries to choose.
import { make } from "./parts.js";

/** A link to another view, which is shown without reloading the page. */
export function link(name, address, ...children) {
  const made = make("a", name, ...children);
  made.href = address;
  made.dataset.link = "";
  return made;
}

/** An input that calls `onInput` with its value when typing pauses. */
export function field(words, onInput, more) {
  const input = Object.assign(make("input"), { autocomplete: "off", spellcheck: false, ...more });
  input.setAttribute("aria-label", words);
  let wait = 0;
  input.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(() => onInput(input.value), 150); });
  return input;
}

/** The entries of a list, each from its value and its text. */
export const choices = (pairs) => pairs.map(([value, text]) => Object.assign(make("option", "", text), { value }));
