// ---- words as in the text index of a run: folded, split at all but letters and digits, stemmed ----

const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** The UTF-8 bytes of a word, one per character: the index counts bytes as letters. */
const asBytes = (word) => unescape(encodeURIComponent(word));

const isVowel = (word, place) => "aeiou".includes(word[place]) || (word[place] === "y" && place > 0 && !isVowel(word, place - 1));

/** How often a vowel is followed by a consonant: the measure of Porter's algorithm. */
function measure(stem) {
  let count = 0;
  for (let place = 1; place < stem.length; place += 1) count += isVowel(stem, place - 1) && !isVowel(stem, place);
  return count;
}

const hasVowel = (stem) => [...stem].some((_, place) => isVowel(stem, place));

/** Whether a stem ends in consonant, vowel, consonant, and the last is not w, x or y. */
function isShort(stem) {
  const last = stem.length - 1;
  return last >= 2 && !isVowel(stem, last) && isVowel(stem, last - 1) && !isVowel(stem, last - 2) && !"wxy".includes(stem[last]);
}

const SECOND = [["ational", "ate"], ["tional", "tion"], ["enci", "ence"], ["anci", "ance"], ["izer", "ize"], ["logi", "log"],
  ["bli", "ble"], ["alli", "al"], ["entli", "ent"], ["eli", "e"], ["ousli", "ous"], ["ization", "ize"], ["ation", "ate"],
  ["ator", "ate"], ["alism", "al"], ["iveness", "ive"], ["fulness", "ful"], ["ousness", "ous"], ["aliti", "al"],
  ["iviti", "ive"], ["biliti", "ble"]];
const THIRD = [["icate", "ic"], ["ative", ""], ["alize", "al"], ["iciti", "ic"], ["ical", "ic"], ["ful", ""], ["ness", ""]];
const FOURTH = ["al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
  "ous", "ive", "ize"];

function swap(word, table) {
  const [end, other] = table.find(([each]) => word.endsWith(each)) || [];
  if (end === undefined) return word;
  const rest = word.slice(0, -end.length);
  return measure(rest) > 0 ? rest + other : word;
}

function withoutPast(word) {
  if (word.endsWith("eed")) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  const end = ["ed", "ing"].find((each) => word.endsWith(each));
  const rest = end && word.slice(0, -end.length);
  if (!rest || !hasVowel(rest)) return word;
  if (/(at|bl|iz)$/.test(rest)) return `${rest}e`;
  const last = rest.length - 1;
  if (last > 0 && rest[last] === rest[last - 1] && !isVowel(rest, last) && !"lsz".includes(rest[last])) return rest.slice(0, -1);
  return measure(rest) === 1 && isShort(rest) ? `${rest}e` : rest;
}

/** The stem of a folded word by Porter's algorithm, as in SQLite's `porter` tokenizer. */
function stem(folded) {
  let word = asBytes(folded);
  if (word.length < 3 || word.length > 64) return word;
  if (word.endsWith("sses") || (word.endsWith("ies") && word.length > 3)) word = word.slice(0, -2);
  else if (word.endsWith("s") && !word.endsWith("ss")) word = word.slice(0, -1);
  word = withoutPast(word);
  if (word.endsWith("y") && hasVowel(word.slice(0, -1))) word = `${word.slice(0, -1)}i`;
  word = swap(swap(word, SECOND), THIRD);
  const end = FOURTH.filter((each) => word.endsWith(each)).sort((a, b) => b.length - a.length)[0];
  const rest = end && word.slice(0, -end.length);
  if (rest !== undefined && measure(rest) > 1 && (end !== "ion" || /[st]$/.test(rest))) word = rest;
  const bare = word.slice(0, -1);
  if (word.endsWith("e") && (measure(bare) > 1 || (measure(bare) === 1 && !isShort(bare)))) word = bare;
  return word.endsWith("ll") && measure(word) > 1 ? word.slice(0, -1) : word;
}

/** The words of a text with their stems and positions; these are valid in `text` if folding kept its length. */
function wordsOf(text) {
  return [...fold(text).matchAll(/[\p{L}\p{N}\p{Co}]+/gu)].map((found) => ({ word: found[0], stem: stem(found[0]), at: found.index }));
}

/** The typed text as phrases, all of which must be found; joined words, as in `a-b`, form one phrase. */
const asQuery = (typed) => typed.replaceAll('"', " ").split(/\s+/).map(wordsOf).filter((phrase) => phrase.length);

/** Whether `phrase` occurs at index `place` of `words`; its last word may be the beginning of a word. */
function standsAt(phrase, words, place) {
  return place + phrase.length <= words.length && phrase.every(({ stem: own }, step) => {
    const other = words[place + step].stem;
    return step === phrase.length - 1 ? other.startsWith(own) : other === own;
  });
}

const isIn = (phrase, texts) => texts.some((words) => words.some((_, place) => standsAt(phrase, words, place)));
const holdsAll = (query, texts) => query.every((phrase) => isIn(phrase, texts));
