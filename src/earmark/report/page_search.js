// The moments of a page that opens from disk: those of its picks, and those that contain typed words.

const KINDS = ["caption", "heard", "said", "read", "seen", "tags"];

const makeReason = ([start, end, kind, text, confidence, model]) => ({ kind, start, end, text, confidence, model });

/** A moment as the server makes them, from what the page holds. */
function asMoment(recording, reasons, facts = {}) {
  const telling = reasons.filter(({ kind }) => kind !== "tags"), own = telling.length ? telling : reasons;
  const start = facts.start ?? Math.min(...own.map((reason) => reason.start)), end = facts.end ?? Math.max(...own.map((reason) => reason.end));
  const kinds = KINDS.filter((kind) => own.some((reason) => reason.kind === kind));
  return { recording: recording.id, name: recording.name, began: recording.began, start, end, reasons, spans: [], kinds, ...facts };
}

/** The picture of the pick that overlaps a moment most; empty if there is none. */
function pictureOf({ recording, start, end, image }) {
  if (image !== undefined) return image;
  const overlap = (pick) => Math.min(pick.end, end) - Math.max(pick.start, start);
  const best = (recordingOf(recording)?.picks ?? []).reduce((most, pick) => (pick.picture && overlap(pick) > 0 && !(most && overlap(most) >= overlap(pick)) ? pick : most), null);
  return best?.picture || "";
}

const BUCKET = 60; // seconds

/** The evidence that overlaps a window; entries are indexed by minute, as there may be very many. */
function entriesIn(recording, { start, end }) {
  if (!recording.minutes) {
    recording.minutes = new Map();
    for (const entry of recording.evidence) {
      for (let minute = Math.floor(entry[0] / BUCKET); minute * BUCKET < entry[1]; minute += 1) {
        if (!recording.minutes.has(minute)) recording.minutes.set(minute, []);
        recording.minutes.get(minute).push(entry);
      }
    }
  }
  const found = new Set();
  for (let minute = Math.floor(start / BUCKET); minute * BUCKET < end; minute += 1) for (const entry of recording.minutes.get(minute) || []) found.add(entry);
  return [...found].filter((entry) => entry[0] < end && entry[1] > start);
}

/** What small models heard, transcribed, read and saw in a window, each text once; speech by time, else by confidence. */
function evidenceOf(recording, span) {
  const best = new Map(), order = (kind) => KINDS.indexOf(kind);
  for (const entry of entriesIn(recording, span)) {
    const key = `${entry[2]} ${entry[3]}`;
    if (!(best.get(key)?.[4] >= entry[4])) best.set(key, entry);
  }
  return [...best.values()].sort((a, b) => order(a[2]) - order(b[2]) || (a[2] === "said" ? a[0] - b[0] : b[4] - a[4])).map(makeReason);
}

/** The picks of a recording as moments; repeats of an answer are one. */
function pickMoments(recording) {
  const same = new Map();
  for (const pick of recording.picks) same.set(pick.leader, [...(same.get(pick.leader) || []), pick]);
  return [...same.values()].map((own) => {
    const [pick] = own, { start } = pick, { end } = own.at(-1);
    const reasons = [...(pick.caption === null ? [] : [{ kind: "caption", text: pick.caption, start, end, confidence: null }]), ...evidenceOf(recording, pick)];
    if (!reasons.length && pick.tags.length) reasons.push({ kind: "tags", text: pick.tags.join(", "), start, end, confidence: null });
    const asked = pick.caption === null && pick.status === "in flight" ? "asked, not answered yet" : "";
    const took = pick.caption === null ? "" : `${pick.model}, ${plural(pick.prompt_tokens + pick.completion_tokens, "token")}${pick.finish === "length" ? ", cut short" : ""}`;
    const note = [asked, pick.round > 1 ? `round ${pick.round}: ${pick.reason}` : pick.reason, took, pick.note].filter(Boolean).join(" · ");
    return asMoment(recording, reasons, { start, end, spans: own.length > 1 ? own.map((each) => [each.start, each.end]) : [], note, image: pick.picture, failure: pick.failure });
  });
}

/** Entries and picks that contain all words of the query. */
function findReasons(recording, query) {
  const entries = recording.evidence.filter((entry) => holdsAll(query, [(entry.words ??= wordsOf(entry[3]))]));
  const picks = recording.picks.filter((pick) => holdsAll(query, (pick.words ??= [wordsOf(pick.caption || ""), wordsOf(pick.tags.join(" "))])));
  return [...entries.map(makeReason), ...picks.map(({ start, end, caption, tags, words }) => (query.some((phrase) => isIn(phrase, words.slice(0, 1)))
    ? { start, end, kind: "caption", text: caption, confidence: null } : { start, end, kind: "tags", text: tags.join(", "), confidence: null }))];
}

/** The moments of a recording that contain all words; overlapping ones, and the same text in adjacent windows, are one. */
function findMoments(recording, query) {
  const groups = [];
  let end = -Infinity, ends = new Map();
  for (const reason of findReasons(recording, query).sort((a, b) => a.start - b.start || a.end - b.end)) {
    const said = `${reason.kind} ${reason.text}`;
    if (reason.start >= end && !(ends.get(said) >= reason.start)) {
      groups.push([]);
      [end, ends] = [reason.end, new Map()];
    }
    groups.at(-1).push(reason);
    end = Math.max(end, reason.end);
    ends.set(said, reason.end);
  }
  return groups.map((own) => asMoment(recording, own));
}

const NEIGHBOURS = 30; // seconds, as in the search of the command line

/** Moments that follow each other and say the same, as one. */
function groupMoments(moments) {
  const groups = [];
  for (const moment of moments) {
    const before = groups.at(-1)?.at(-1);
    if (before && before.recording === moment.recording && moment.start - before.end <= NEIGHBOURS && before.reasons.length && before.reasons[0].text === moment.reasons[0]?.text && !moment.failure) groups.at(-1).push(moment);
    else groups.push([moment]);
  }
  return groups.map((own) => (own.length === 1 ? own[0] : { ...own[0], end: own.at(-1).end, spans: own.flatMap(({ start, end, spans }) => (spans.length ? spans : [[start, end]])), reasons: own.flatMap((each) => each.reasons) }));
}
