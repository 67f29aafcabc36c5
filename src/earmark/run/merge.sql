-- Merges the run attached as `other`; `plan_of` has the numbers of its plan in both.
-- Row numbers differ between runs, so everything is joined by id and identity. Merging a run twice
-- changes nothing. If one of the runs has faces blurred, pictures of the other are left out.
UPDATE main.frames SET thumbnail = x'' WHERE (SELECT count(*) FROM main.notes WHERE name = 'blur')
    < (SELECT count(*) FROM other.notes WHERE name = 'blur');
INSERT OR IGNORE INTO main.notes
    SELECT name, value FROM other.notes WHERE name NOT IN ('plan', 'holder', 'audit');
INSERT OR REPLACE INTO main.notes SELECT 'audit', json_group_array(json(part)) FROM (
    SELECT DISTINCT each.value AS part FROM (
        SELECT value FROM main.notes WHERE name = 'audit'
        UNION ALL SELECT value FROM other.notes WHERE name = 'audit') AS kept,
        json_each(iif(json_type(kept.value) = 'array', kept.value, json_array(json(kept.value))))
            AS each
    ORDER BY part) HAVING count(*);
INSERT INTO main.recordings
    (id, path, name, chapters, duration, size_bytes, frame_rate, frame_count, failure, is_replaced,
        began, clock, marks, transcribed_by, content, versions)
    SELECT id, path, name, chapters, duration, size_bytes, frame_rate, frame_count, failure,
        is_replaced, began, clock, marks, transcribed_by, content, versions
    FROM other.recordings WHERE true
    ON CONFLICT (id) DO UPDATE SET path = excluded.path, name = excluded.name,
        chapters = excluded.chapters, duration = excluded.duration,
        size_bytes = excluded.size_bytes, frame_rate = excluded.frame_rate,
        frame_count = excluded.frame_count, began = excluded.began, clock = excluded.clock, marks = excluded.marks,
        failure = excluded.failure, is_replaced = excluded.is_replaced, transcribed_by = excluded.transcribed_by,
        content = excluded.content, versions = excluded.versions
    WHERE recordings.failure IS NOT NULL OR recordings.is_replaced;
UPDATE main.recordings AS lost SET is_replaced = 1 WHERE failure IS NOT NULL AND EXISTS (
    SELECT 1 FROM main.recordings found WHERE found.path = lost.path
        AND found.id <> lost.id AND found.failure IS NULL AND NOT found.is_replaced);
CREATE TEMP TABLE recording_of AS
    SELECT theirs.number AS old, ours.number AS new
    FROM other.recordings theirs JOIN main.recordings ours USING (id);
CREATE UNIQUE INDEX temp.recording_of_old ON recording_of (old);

INSERT OR IGNORE INTO main.heard
    SELECT new, key, window, duration, windows, expected, scores, instants, rates, lengths,
        level, level_hop, sound_bytes, access, warnings, audio_track
    FROM other.heard JOIN recording_of ON old = recording;
INSERT OR IGNORE INTO main.frames
    SELECT new, "start", "end", iif((SELECT count(*) FROM main.notes WHERE name = 'blur')
            > (SELECT count(*) FROM other.notes WHERE name = 'blur'), x'', thumbnail),
        frames_decoded, frames_sent, bytes_read, faces_blurred
    FROM other.frames JOIN recording_of ON old = recording;
INSERT INTO main.evidence (recording, "start", "end", kind, text, confidence, origin, data)
    SELECT new, "start", "end", kind, text, confidence, origin, data
    FROM other.evidence theirs JOIN recording_of ON old = recording WHERE NOT EXISTS (
        SELECT 1 FROM main.evidence ours WHERE ours.recording = new AND ours.kind = theirs.kind
            AND ours."start" = theirs."start" AND ours."end" = theirs."end"
            AND ours.text = theirs.text AND ours.origin = theirs.origin);
INSERT OR IGNORE INTO main.tags (recording, "start", "end", words)
    SELECT new, "start", "end", words FROM other.tags JOIN recording_of ON old = recording;

INSERT OR IGNORE INTO main.calls (identity, recording, "start", "end", model, state)
    SELECT identity, new, "start", "end", model, 'waiting'
    FROM other.calls JOIN recording_of ON old = recording;
CREATE TEMP TABLE call_of AS
    SELECT theirs.id AS old, ours.id AS new, ours.state <> 'answered' AS is_open
    FROM other.calls theirs JOIN main.calls ours USING (identity);
CREATE UNIQUE INDEX temp.call_of_old ON call_of (old);
UPDATE main.calls SET asked = max(calls.asked, theirs.asked),
    interrupted = max(calls.interrupted, theirs.interrupted),
    reserve_tokens = max(calls.reserve_tokens, theirs.reserve_tokens),
    reserve_spend = max(calls.reserve_spend, theirs.reserve_spend),
    state = CASE WHEN 'answered' IN (calls.state, theirs.state) THEN calls.state
        ELSE theirs.state END
    FROM other.calls theirs WHERE theirs.identity = calls.identity;
INSERT INTO main.answers
    SELECT new, text, model, kind, data, prompt_tokens, completion_tokens, latency, form, finish,
        note, spend, at
    FROM other.answers JOIN call_of ON old = call WHERE is_open;
INSERT INTO main.failures (call, reason, prompt_tokens, completion_tokens, spend, at)
    SELECT new, 'answered in another run too', coalesce(theirs.prompt_tokens, 0),
        coalesce(theirs.completion_tokens, 0), theirs.spend, theirs.at
    FROM other.answers theirs JOIN call_of ON old = theirs.call
        JOIN main.answers ours ON ours.call = new
    WHERE NOT is_open AND theirs.kind = 'caption' AND ours.at <> theirs.at AND NOT EXISTS (
        SELECT 1 FROM main.failures kept WHERE kept.call = new AND kept.at = theirs.at);
INSERT INTO main.failures (call, reason, prompt_tokens, completion_tokens, spend, at)
    SELECT new, reason, prompt_tokens, completion_tokens, spend, at
    FROM other.failures JOIN call_of ON old = call WHERE NOT EXISTS (
        SELECT 1 FROM main.failures ours
        WHERE ours.call = new AND ours.reason = failures.reason AND ours.at = failures.at);
INSERT INTO main.corrections
    (recording, "start", "end", verdict, text, author, at, call, withdrawn)
    SELECT r.new, "start", "end", verdict, text, author, at, c.new, withdrawn
    FROM other.corrections theirs JOIN recording_of r ON r.old = recording
        LEFT JOIN call_of c ON c.old = call
    WHERE NOT EXISTS (
        SELECT 1 FROM main.corrections ours
        WHERE ours.recording = r.new AND ours."start" = theirs."start" AND ours.at = theirs.at
            AND ours."end" = theirs."end" AND ours.verdict = theirs.verdict
            AND ours.author = theirs.author AND ours.text = theirs.text)
    ORDER BY theirs.id;
UPDATE main.corrections AS ours SET withdrawn = theirs.withdrawn
    FROM other.corrections theirs JOIN recording_of r ON r.old = theirs.recording
    WHERE ours.withdrawn IS NULL AND ours.recording = r.new AND ours.at = theirs.at
        AND ours."start" = theirs."start" AND ours.author = theirs.author
        AND ours.verdict = theirs.verdict;

INSERT OR IGNORE INTO main.gaps
    SELECT r.new, "start", "end", reason FROM other.gaps JOIN recording_of r ON r.old = recording;

DELETE FROM main.picks WHERE plan = (SELECT ours FROM plan_of) AND recording IN (
    SELECT new FROM other.choices JOIN recording_of ON old = recording
    WHERE plan = (SELECT theirs FROM plan_of));
INSERT OR REPLACE INTO main.choices
    SELECT ours, new, rule, forecast, notes, forecast_range
    FROM other.choices JOIN plan_of ON plan = theirs JOIN recording_of ON old = recording;
INSERT INTO main.picks
    SELECT ours, r.new, p.window, p."start", p."end", p.instant, p.score, p.rate, p.expected,
        p.reason, tags.id, c.new, p.round
    FROM other.picks p JOIN plan_of ON p.plan = theirs JOIN recording_of r ON r.old = p.recording
        LEFT JOIN main.tags ON p.tags IS NOT NULL
            AND tags.recording = r.new AND tags."start" = p."start" AND tags."end" = p."end"
        LEFT JOIN call_of c ON c.old = p.call;
DROP TABLE recording_of;
DROP TABLE call_of;
DROP TABLE plan_of;
