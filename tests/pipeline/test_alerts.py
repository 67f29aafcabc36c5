"""Alerts by named sounds and by words of answers; named sounds of streams; the digest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from earmark.evidence.live_sounds import RecentSounds, SoundCells, name_live
from earmark.evidence.sound_track import CELL, SoundTracker
from earmark.features.sound_tags import class_names
from earmark.features.yamnet import YAMNet
from earmark.media import Sound
from earmark.models import ModelStore
from earmark.pipeline.alerts import PAUSE, Alerts, read_terms
from earmark.pipeline.live_digest import DailyDigest, digest_lines, latest
from earmark.run.live_rows import add_gap
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.timeline import Span

NAMES = class_names("audioset")
RATE = 16_000


def sounds_of(term: str) -> set[str]:
    return set(read_terms(term, NAMES)[0].sounds.values())


def test_a_term_means_the_closest_sounds_and_their_kinds():
    assert sounds_of("'fire alarm'") == {"Fire alarm"}  # neither Fire nor Alarm
    assert sounds_of("scream") == {"Screaming"}
    assert {"Glass", "Shatter", "Breaking"} <= sounds_of("glass breaking")
    assert sounds_of("unattended luggage") == set()
    terms = read_terms("glass breaking, scream, 'fire alarm'", NAMES)
    assert [term.words for term in terms] == ["glass breaking", "scream", "fire alarm"]


def cells(name: str, time: float, likely: float) -> SoundCells:
    logit = np.log(likely / (1 - likely))
    number = NAMES.index(name)
    return SoundCells(
        np.array([time]), np.array([number], np.int16), np.array([logit], np.float32), time + 1
    )


def test_a_sound_that_goes_on_alerts_once_in_each_source():
    alerts = Alerts(read_terms("scream", NAMES), onset=0.4)

    def hear(source: str, time: float, likely: float = 0.9) -> list[str]:
        return [alert["sound"] for alert in alerts.hear(source, cells("Screaming", time, likely))]

    assert not hear("hall", 1000.0, likely=0.3)
    assert hear("hall", 1001.0) == ["Screaming"]
    assert not any(hear("hall", 1001.0 + second) for second in range(1, 300, 10))
    assert hear("yard", 1200.0) == ["Screaming"]
    assert hear("hall", 1292.0 + PAUSE + 1) == ["Screaming"]
    assert not list(alerts.hear("hall", cells("Speech", 2000.0, 0.9)))


def test_all_words_of_a_term_have_to_be_in_an_answer():
    alerts = Alerts(read_terms("broken windows, knife", NAMES), onset=0.4)
    assert not list(alerts.read("hall", "A window is open.", 10.0))
    (alert,) = alerts.read("hall", "The window was broken by a stone.", 100.0)
    assert alert["term"] == "broken windows"


@pytest.fixture(scope="module")
def yamnet() -> YAMNet:
    pytest.importorskip("ai_edge_litert")
    if not ModelStore().path("yamnet").is_file():
        pytest.skip("needs yamnet")
    return YAMNet(cell=CELL)


def beeps(seconds: int, on: range) -> np.ndarray:
    """Faint noise; a smoke detector in the seconds `on`."""
    time = np.arange(seconds * RATE) / RATE
    noise = 0.001 * np.random.default_rng(0).standard_normal(len(time))
    tone = 0.5 * np.sin(2 * np.pi * 3100 * time) * (time % 1 < 0.5)
    is_on = np.isin(time.astype(int), list(on))
    return (noise + np.where(is_on, tone, 0)).astype(np.float32)


def pieces(samples: np.ndarray) -> Iterator[Sound]:
    for first in range(0, len(samples), RATE):
        yield Sound(samples[first : first + RATE], first / RATE, RATE)


def test_a_beeping_detector_is_named_while_it_beeps(yamnet: YAMNet):
    alerts, heard = Alerts(read_terms("smoke detector", yamnet.classes), yamnet.onset), []
    delays = []

    def take(found: SoundCells) -> None:
        heard.append(found)
        found_alerts = alerts.hear("hall", found)
        delays.extend(passed - (alert["start"] - 1000.0) for alert in found_alerts)

    passed = 0.0

    def arriving() -> Iterator[Sound]:
        nonlocal passed
        for piece in pieces(beeps(60, range(20, 32))):
            passed = piece.start + 1.0
            yield piece

    blocks = list(name_live(yamnet, arriving(), start=1000.0, take=take))
    assert sum(map(len, blocks)) == 60 * RATE
    assert len(delays) == 1 and delays[0] <= 4.0  # seconds of sound, whatever the machine


def test_events_of_a_stream_are_those_of_the_whole_sound(yamnet: YAMNet):
    samples = beeps(200, range(20, 26))
    samples[100 * RATE : 140 * RATE] = beeps(40, range(40))
    tracker = SoundTracker(yamnet)
    list(tracker.pass_through(pieces(samples)))
    whole = [(event.text, event.span) for event in tracker.track().events()]
    recent, stored = RecentSounds(yamnet, 1000.0), {}

    def settle() -> None:
        events, within = recent.settle()
        for key in [key for key, span in stored.items() if within.start <= span.start]:
            del stored[key]
        stored.update({(event.text, event.span): event.span for event in events})

    count = 0

    def take(found: SoundCells) -> None:
        nonlocal count
        recent.add(found)
        if (count := count + 1) % 30 == 0:
            settle()

    list(name_live(yamnet, pieces(samples), start=1000.0, take=take))
    settle()
    assert sorted(stored) == sorted(whole) and len(whole) >= 2
    assert any("moke" in name for name in recent.names_in(Span(104.0, 108.0)))


MORNING = datetime(2026, 3, 3, 7).timestamp()


def test_the_time_of_a_digest():
    assert latest("07:00", MORNING) == MORNING
    assert latest("07:00", MORNING - 1) == MORNING - 86_400
    assert latest("07:00", MORNING + 3600) == MORNING


def test_a_digest_is_made_once_a_day_also_by_the_next_process(tmp_path: Path):
    digest = DailyDigest("07:00")
    with Run(tmp_path / "run", {}) as run:
        assert digest.due(run, MORNING - 3600) is None
        assert digest.due(run, MORNING - 1) is None
    with Run(tmp_path / "run", {}) as run:
        assert digest.due(run, MORNING + 600) == MORNING
        assert digest.due(run, MORNING + 601) is None


def test_a_digest_tells_of_its_24_hours_alone(tmp_path: Path):
    began = datetime(2026, 3, 2).astimezone().isoformat()
    with Run(tmp_path / "run", {}) as run:
        run.add(RecordingRow("a" * 64, "rtsp://hall#1", 86_400.0, 0, name="hall", began=began))
        add_gap(run, "a" * 64, Span(3600.0, 7200.0), "before the digest")
        add_gap(run, "a" * 64, Span(40_000.0, 40_060.0), "unplugged")
        text = "\n".join(digest_lines(run, Span(MORNING - 86_400, MORNING)))
    assert text.startswith("hall\n") and "1 min in 1 gap" in text
