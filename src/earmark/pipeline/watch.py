"""Watches live sources: listens to all, spends a rate of calls, and asks about the picks.

sources ──▶ listen ──▶ spend ──▶ decode from the ring ──▶ spool ──▶ ask ──▶ run
              └── gaps, levels, windows ──▶ parts of the run          └──▶ events, as JSON

One thread per source listens, one asks, and the caller's does all between (`live_watch`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from earmark.captioning.spool import SPOOL, Spool
from earmark.errors import ModelMissing
from earmark.features.sound_tags import PatchTagger
from earmark.media.live_input import LiveInput
from earmark.media.live_stream import LiveStream
from earmark.media.packet_ring import PacketRing
from earmark.media.stream_clock import Clock, steady_clock
from earmark.pipeline.alerts import Alerts, read_terms
from earmark.pipeline.asker import Asker
from earmark.pipeline.live_listening import SourceListener, Stream
from earmark.pipeline.live_parts import WatchCounts, WatchedSource
from earmark.pipeline.live_watch import LEARNT, Watch
from earmark.pipeline.outlets import Emit, Outlets
from earmark.pipeline.resume import resume
from earmark.pipeline.session import Choices, Session, open_session
from earmark.run.live_rows import calls_since
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder
from earmark.selection.call_rate import DAY, CallLog, CallRate, SpentCall
from earmark.selection.live_coverage import LiveCoverage
from earmark.selection.live_windows import LiveListener
from earmark.settings import Settings

RING_MARGIN = 30.0
"""Seconds that the ring holds beyond the latency: a window, a group of pictures, a busy machine."""

PATIENCE = 150.0
"""Seconds that answers in flight are awaited at the end."""


def open_live(address: str, ring: PacketRing, sample_rate: int, clock: Clock) -> Stream:
    return LiveStream(LiveInput(address), ring, sample_rate=sample_rate, clock=clock)


@dataclass(frozen=True, slots=True)
class World:
    """What a simulation replaces."""

    clock: Clock = field(default_factory=steady_clock)
    open_stream: Callable[[str, PacketRing, int, Clock], Stream] = open_live
    stopped: threading.Event = field(default_factory=threading.Event)


def watch(
    sources: Sequence[str],
    *,
    run: str | Path,
    settings: Settings | None = None,
    api_key: str | None = None,
    emit: Emit = lambda _: None,
    world: World | None = None,
    **choices: Unpack[Choices],
) -> WatchCounts:
    """Watch live `sources` until the world is stopped, or all are files that have ended.

    Args:
        sources: Addresses of streams, files that still grow, and capture devices.
        run: The run's folder; a second call continues it.
        settings: Every choice; the defaults if not given.
        api_key: For a server that needs one; stored nowhere.
        emit: Gets every event as it happens, from several threads, one at a time.
        world: The wall clock and the streams of a simulation.
        choices: Settings by name, which win over `settings`.
    """
    world = world or World()
    plan = resume(open_session((), settings, **choices), run)
    captioner = plan.open_captioner(api_key=api_key)
    described = plan.run_json(captioner.model) | {"watch": _rate_json(plan.settings)}
    tagger, alerts = _open_tagger(plan), _open_alerts(plan)
    outlets = Outlets.open(plan.settings.watch, Path(run), emit)
    with Run(Path(run), described, blur=plan.question.blur) as opened, outlets:
        opened.keep_last_picks()
        rate = _rate(plan.settings)
        now = world.clock()
        calls = [SpentCall(*row) for row in calls_since(opened, now - DAY) if row[0] <= now]
        recorder = CallRecorder(plan.settings.limits, opened, opened.spent())
        spool, log = Spool(opened.folder / SPOOL), CallLog(rate, calls)
        asker = Asker(captioner, recorder, spool, log, plan.question, world.clock)
        coverage = LiveCoverage(rate, calls)
        coverage.restore(json.loads(opened.note(LEARNT) or "{}"))
        watched = Watch(plan, opened, asker, coverage, world.clock, outlets)
        watched.tagger, watched.alerts = tagger, alerts
        _add_sources(watched, sources, world)
        if alerts.terms:
            terms = {term.words: list(term.sounds.values()) for term in alerts.terms}
            watched.report("alerts", terms=terms)
        _run(watched, world.stopped)
    return watched.counts


def _run(watched: Watch, stopped: threading.Event) -> None:
    watched.start()
    try:
        while not stopped.is_set() and not watched.has_ended:
            watched.step()
    finally:
        stopped.set()
        watched.asker.stop(PATIENCE)
        watched.close()


def _add_sources(watched: Watch, sources: Sequence[str], world: World) -> None:
    plan = watched.plan
    latency = plan.settings.watch.latency
    for address in sources:
        listening = plan.listening
        listener = LiveListener(listening.frontline, listening.grid, latency, listening.lengths)
        ring = PacketRing(latency + RING_MARGIN)
        stream = world.open_stream(address, ring, listener.sample_rate, world.clock)
        name = LiveInput(address).name
        if name in watched.sources:
            name = f"{name} {len(watched.sources) + 1}"
        heard = SourceListener(name, stream, listener, watched.queue, world.stopped, watched.tagger)
        watched.sources[name] = WatchedSource(address, heard)


def _open_tagger(plan: Session) -> PatchTagger | None:
    encoder = plan.namer.encoder if plan.namer else None
    return encoder if isinstance(encoder, PatchTagger) else None


def _open_alerts(plan: Session) -> Alerts:
    text = plan.settings.watch.alert
    if not text:
        return Alerts()
    if (tagger := _open_tagger(plan)) is None:
        raise ModelMissing("--alert needs a model that names sounds: `earmark models get mn04`")
    return Alerts(read_terms(text, tagger.classes), tagger.onset)


def _rate(settings: Settings) -> CallRate:
    chosen = settings.watch
    return CallRate(chosen.calls_per_hour, chosen.burst, chosen.calls_per_day)


def _rate_json(settings: Settings) -> Mapping[str, Any]:
    names = ("calls_per_hour", "burst", "calls_per_day", "latency", "part")
    return {name: getattr(settings.watch, name) for name in names}
