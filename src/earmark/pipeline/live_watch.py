"""The loop of a watch: what was heard becomes windows of a part, picks, requests and events.

heard ──▶ part of the run ──▶ rate ──▶ picks ──▶ pictures from the ring ──▶ spool
  └── gaps, states ──▶ rows and events
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from queue import Empty, Queue
from typing import Any

from earmark.captioning.request import TAGS_MODEL, Request
from earmark.errors import InternalError, MediaError, RunError
from earmark.evidence.live_sounds import SoundCells
from earmark.evidence.sound_names import sounds_in
from earmark.features.sound_tags import PatchTagger
from earmark.media.live_stream import Gap, State
from earmark.media.packet_ring import PacketRing
from earmark.media.stream_clock import Clock
from earmark.pipeline.alerts import Alerts
from earmark.pipeline.asker import Asker, raise_error
from earmark.pipeline.backend import show
from earmark.pipeline.forget import forget_recordings
from earmark.pipeline.live_digest import DAY, DailyDigest, digest_lines
from earmark.pipeline.live_listening import Broken, Level, SourceListener
from earmark.pipeline.live_parts import Part, PartKey, WatchCounts, WatchedSource
from earmark.pipeline.outlets import Emit
from earmark.pipeline.resume import PAGE
from earmark.pipeline.session import Session
from earmark.report.run_report import write_report
from earmark.run.live_rows import clip_folder, store_state_of_watch
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.run.schema import is_full
from earmark.selection.live_coverage import LiveCoverage
from earmark.selection.live_windows import LiveWindows
from earmark.selection.pick import Pick
from earmark.timeline import Span, Track
from earmark.wall_clock import iso_time

logger = logging.getLogger(__name__)

STORE_EVERY = 60.0
"""Seconds of a stream between two updates of its stored windows."""

STATE_EVERY = 10.0
"""Seconds between two updates of the state that `earmark serve` shows."""

REPORT_EVERY = 900.0
"""Seconds between two updates of the page."""

END = 20.0
"""Seconds for which the threads of the sources are awaited; a stream may wait for a packet."""

LEARNT = "watch demand"
"""Note of the run: how much each source would buy at each price, by the hour of the day."""

QUEUED = 8
"""Events of all sources that wait; a file that is read faster than it is used waits too."""


@dataclass(slots=True, eq=False)
class Watch:
    """A watch that goes on; `step` handles one thing that was heard."""

    plan: Session
    run: Run
    asker: Asker
    coverage: LiveCoverage
    clock: Clock
    emit: Emit
    tagger: PatchTagger | None = None
    """Names sounds, if there is a model."""
    alerts: Alerts = field(default_factory=Alerts)
    sources: dict[str, WatchedSource] = field(default_factory=dict)
    queue: Queue[tuple[SourceListener, Any]] = field(default_factory=lambda: Queue(QUEUED))
    counts: WatchCounts = field(default_factory=WatchCounts)
    _reported: float = 0.0
    _state_stored: float = 0.0
    _is_full: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self.asker.report, self.asker.on_late_call = self.report, self.coverage.log.add
        self.asker.start()
        for source in self.sources.values():
            source.listener.start()

    @property
    def has_ended(self) -> bool:
        """All sources are files that have ended, and nothing more can be asked soon."""
        states = {source.listener.state.state for source in self.sources.values()}
        is_heard = states <= {"ended", "broken"} and self.queue.empty()
        return is_heard and (not len(self.asker.spool) or self.asker.has_to_wait)

    def report(self, event: str, *, request: Request | None = None, **fields: Any) -> None:
        """Emit an event, from any thread."""
        about = {} if request is None else self._about(request)
        with self._lock:
            counter = {"answer": "answers", "failed": "failed", "dropped": "dropped"}.get(event)
            if counter:
                setattr(self.counts, counter, getattr(self.counts, counter) + 1)
            self.emit({"event": event, "time": iso_time(self.clock()), **about, **fields})
        if event == "answer" and request is not None:
            start, end = about["start"], about["end"]
            when = datetime.fromisoformat(start).timestamp()
            for alert in self.alerts.read(about["source"], fields["caption"], when):
                self.report("alert", source=about["source"], start=start, end=end, **alert)

    def _about(self, request: Request) -> dict[str, Any]:
        for source in self.sources.values():
            part = source.part
            if part and part.key.id == request.recording:
                return _place(source.name, part.key.start, request)
        row = self.run.recording(request.recording)  # an earlier part, or another process's
        begin = datetime.fromisoformat(row.began).timestamp() if row else 0.0
        return _place(row.name if row else "", begin, request)

    def step(self, timeout: float = 1.0) -> bool:
        """Handle what was heard next; False if nothing was, for `timeout` seconds."""
        raise_error(self.asker)
        heard: Any = None
        with suppress(Empty):
            listener, heard = self.queue.get(timeout=timeout)
        try:
            if heard is not None:
                self._take(self.sources[listener.name], heard)
            self._keep_house()
        except (RunError, OSError) as error:
            self._note_full(error)
        return heard is not None

    def _take(self, source: WatchedSource, heard: Any) -> None:
        if isinstance(heard, Level):
            self._part(source, heard.time).add_level(heard)
        elif isinstance(heard, SoundCells):
            self._note_sounds(source, heard)
        elif isinstance(heard, LiveWindows):
            self._decide(source, heard)
        elif isinstance(heard, Gap):
            self._note_gap(source, heard.span, heard.reason)
        elif isinstance(heard, State):
            self._note_state(source, heard)
        elif isinstance(heard, Broken):
            logger.warning("%s: %s", source.name, heard.error, exc_info=heard.error)
            self._note_state(source, State("broken", str(heard.error)))
            if isinstance(heard.error, InternalError):
                raise heard.error

    def _note_sounds(self, source: WatchedSource, cells: SoundCells) -> None:
        assert self.tagger
        for alert in self.alerts.hear(source.name, cells):
            self.report("alert", source=source.name, **alert | {"start": iso_time(alert["start"])})
        self._part(source, cells.until).add_sounds(cells, self.tagger)

    def _decide(self, source: WatchedSource, windows: LiveWindows) -> None:
        end = (windows.first + windows.due) * windows.length
        if end <= self._part(source, windows.first * windows.length).resumed_at:
            return
        for place in range(windows.due):
            start = (windows.first + place) * windows.length
            self._part(source, start).add(windows, place)
        if not source.has_video:
            return
        picks = self.coverage.hear(source.name, windows, now=self.clock())
        for number, pick in enumerate(picks):
            if pick.start < self._part(source, pick.start).resumed_at:
                continue
            try:
                self._pick(source, pick)
            except (RunError, OSError) as error:
                for _ in picks[number:]:
                    self.report("dropped", source=source.name, reason=str(error))
                raise

    def _part(self, source: WatchedSource, time: float) -> Part:
        """The part of `time`; the one before it is stored when the next begins."""
        before = source.part
        if before and before.key.start <= time < before.key.end:
            return before
        duration = self.plan.settings.watch.part
        key = PartKey.at(source.address, time, duration)
        if before and key.start < before.key.start:
            return Part.open(self.run, key, source.name, self.plan.listening.grid.length)
        part = Part.open(self.run, key, source.name, self.plan.listening.grid.length)
        if before:
            self._store(before)
        source.part = part
        self._forget_old()
        if not (before or part.until):
            part.add_gap(self.run, Span(key.start, time), "not watched yet")
        if part.until and time - part.until > STORE_EVERY:
            self._note_gap(source, Span(part.until, time), "earmark was not running")
        return part

    def _pick(self, source: WatchedSource, pick: Pick) -> None:
        part, ring = self._part(source, pick.start), source.listener.stream.ring
        placed = part.place(pick)
        self._store(part)
        level = Track(part.level, hop=1.0) if len(part.level) else None
        names = {placed.span: part.names_in(placed.span)}
        sounds = sounds_in([placed.span], level=level, names=names)[placed.span]
        model, key = self.asker.captioner.model, part.key.id
        request = Request.about(key, placed, self.plan.question, sounds, model)
        self.run.add_pick(key, placed, sounds.tags)
        self.counts.picks += 1
        self.report("pick", request=request, expected=round(pick.expected, 3), reason=pick.reason)
        try:
            decoded = ring.frames([part.key.start + time for time in request.times])
            frames = [replace(frame, time=frame.time - part.key.start) for frame in decoded.frames]
            stored, shown = show(request, replace(decoded, frames=frames))
        except MediaError as error:
            self.run.begin(request)
            self.run.fail(request, str(error), was_sent=False)
            self.report("dropped", request=request, reason=str(error))
            return
        self.counts.frames_decoded += decoded.frames_decoded
        self.run.keep_frames(key, stored)
        if self.plan.settings.watch.keep_clips:
            self._cut(part, ring, placed)
        self._ask(request, shown, worth=pick.expected)

    def _ask(self, request: Request, shown: Request, *, worth: float) -> None:
        captioner = self.asker.captioner
        if captioner.model == TAGS_MODEL:  # asks nobody
            self.run.unanswered([request])
            answer = captioner(shown, timeout=self.plan.settings.limits.timeout)
            self.asker.answered(shown, answer)
            return
        try:
            dropped = self.asker.spool.add(shown, worth=worth, picked=self.clock())
        except OSError as error:
            self.report("dropped", request=request, reason=f"cannot be stored: {error.strerror}")
            return
        for entry in dropped:
            reason = "more picks wait than the spool holds; this one was worth least"
            self.report("dropped", identity=entry.identity, worth=entry.worth, reason=reason)
        self.asker.changed.set()

    def _cut(self, part: Part, ring: PacketRing, pick: Pick) -> None:
        start, key = part.key.start, part.key.id
        path = clip_folder(self.run.folder, key) / f"{pick.start:09.1f}.mp4"
        try:
            span = Span(start + pick.start, start + pick.end)
            ring.cut(span, path, has_sound=self.plan.settings.voices)
        except MediaError as error:
            logger.warning("%s: %s", part.name, error)

    def _note_gap(self, source: WatchedSource, gap: Span, reason: str) -> None:
        """A row in every part that the gap touches."""
        self.counts.gaps += 1
        time = gap.start
        while time < gap.end:
            part = self._part(source, time)
            part.add_gap(self.run, gap, reason)
            time = part.key.end
        self.report("gap", source=source.name, start=iso_time(gap.start), end=iso_time(gap.end),
                    seconds=round(gap.duration, 3), reason=reason)  # fmt: skip

    def _note_state(self, source: WatchedSource, state: State) -> None:
        if state.state == "listening":
            source.has_video = bool(state.video)
        fields = {"video": state.video, "sound": state.sound, "reason": state.reason}
        known: dict[str, Any] = {name: value for name, value in fields.items() if value}
        self.report("source", source=source.name, state=state.state, **known)
        self._store_state()

    def _keep_house(self) -> None:
        now = self.clock()
        for source in self.sources.values():
            part = source.part
            if part and part.until - part.stored_until >= STORE_EVERY:
                self._store(part)
                self._report_listening(source, part)
                self.run.set_note(LEARNT, json.dumps(self.coverage.to_json()))
        if now - self._state_stored >= STATE_EVERY:
            self._store_state()
        if self._is_full and self.run.make_room():
            self._is_full = False
            self.report("room", reason="the disk has room again")
        if now - self._reported >= REPORT_EVERY:
            self._reported = now
            write_report(self.run, self.run.folder / PAGE)
        if at := self.plan.settings.watch.digest:
            self._make_digest(DailyDigest(at), now)

    def _make_digest(self, digest: DailyDigest, now: float) -> None:
        end = digest.due(self.run, now)
        if end is not None:
            lines = digest_lines(self.run, Span(end - DAY, end))
            self.report("digest", until=iso_time(end), text="\n".join(lines))

    def _report_listening(self, source: WatchedSource, part: Part) -> None:
        stream = source.listener.stream
        self.report(
            "listening",
            source=source.name,
            until=iso_time(part.until),
            bytes=stream.meter.bytes_read,
            ring_bytes=stream.ring.size_bytes,
            frames_decoded=self.counts.frames_decoded,
            calls_left=int(self.asker.calls.tokens(self.clock())),
            waiting=len(self.asker.spool),
        )

    def _store(self, part: Part) -> None:
        stream = next((s.listener.stream for s in self.sources.values() if s.part is part), None)
        if stream:
            part.bytes_received, part.format = stream.meter.bytes_read, stream.ring.format
        listening = self.plan.listening
        grid_key = listening.grid.key(listening.frontline, listening.lengths)
        part.store(self.run, grid_key)

    def _store_state(self) -> None:
        sources = [
            {
                "name": source.name,
                "state": source.listener.state.state,
                "reason": source.listener.state.reason,
                "until": iso_time(source.part.until) if source.part and source.part.until else "",
            }
            for source in self.sources.values()
        ]
        asker, now = self.asker, self.clock()
        state = {
            "sources": sources,
            "waiting": len(asker.spool),
            "calls_left": round(asker.calls.tokens(now), 2),
            "calls_per_hour": asker.calls.rate.per_hour,
            "model": asker.cap or ("the model server is unreachable" if asker.is_down else ""),
        }
        store_state_of_watch(self.run, state)
        self._state_stored = now

    def _forget_old(self) -> None:
        keep = self.plan.settings.watch.keep
        if keep is None:
            return
        oldest = self.clock() - keep
        length = self.plan.settings.watch.part
        old = [row for row in self.run.recordings() if _is_over(row, length, oldest)]
        if not old:
            return
        try:
            forget_recordings(self.run, old)
        except RunError as error:  # somebody reads it: the next part tries again
            self.report("forget", reason=str(error))
            return
        self.report("forget", parts=[row.name for row in old])

    def _note_full(self, error: RunError | OSError) -> None:
        """A full disk is waited for; any other error ends the watch."""
        if not is_full(error.__cause__) and self.run.make_room():
            raise error
        if not self._is_full:
            self._is_full = True
            self.report("full", reason=str(error))

    def close(self) -> None:
        """Store all that was heard; what waits stays in the spool."""
        for source in self.sources.values():
            source.listener.stop(END)
            if source.part:
                self._store(source.part)
                self._report_listening(source, source.part)
        self._store_state()
        self.run.keep_last_picks()
        write_report(self.run, self.run.folder / PAGE)


def _place(source: str, begin: float, request: Request) -> dict[str, Any]:
    start, end = begin + request.span.start, begin + request.span.end
    return {"source": source, "start": iso_time(start), "end": iso_time(end)}


def _is_over(row: RecordingRow, length: float, oldest: float) -> bool:
    return bool(row.began) and datetime.fromisoformat(row.began).timestamp() + length <= oldest
