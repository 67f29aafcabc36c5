"""Runs with pictures, captions and failures, for the tests of what a person sees."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import numpy as np

from drawing import SHORT
from earmark import Pick, Span, Track
from earmark.captioning.request import Answer
from earmark.grid import Windows
from earmark.media.frame import Frame
from earmark.run.records import (
    PickFrames,
    RecordingRow,
)
from earmark.run.run import Run
from earmark.selection.pick import explain
from earmark_lab.demo import Script, make_scene
from small_runs import CallRow

HOSTILE = (
    "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
    "<svg onload='window.ran = 3'></svg><!-- &lt;b&gt; --> {{style}} \u2028 ]]> <b>bold</b>"
)
"""A caption that would run, and would break the page, if any of it were read as markup."""

CAPTIONS = {
    "hammer": "The wearer drives a nail into a pine block with a red hammer.",
    "rub": "A blue cloth is rubbed over the table, to and fro.",
    "rinse": "Water runs from the tap into the sink; the hands are rinsed.",
    "carry": "A yellow box is carried along the shelf.",
}


MARKS = (7.0, 31.5)
"""Seconds that somebody marked on the camera."""


def tell_scene(
    folder: Path, *, seed: int = 0, duration: float = 120.0, share: float = 0.35
) -> Path:
    """A run of one real recording; some calls failed, some not asked, one caption hostile."""
    scene = make_scene(folder / "bench cam #1.mp4", duration=duration)
    script = Script.compose(duration=duration)
    windows, level = hear(script)
    chosen = np.argsort(-windows.scores, kind="stable")[: round(share * len(windows))]
    picks = explain(windows, chosen, "window {0}: {1:.1f} new actions expected".format)
    size, shots = scene.path.stat().st_size, album(script)
    with Run(folder / "run", {"model": "tiny-vl", "budget": "35%"}) as ledger:
        facts = (duration, size, 15.0, round(duration * 15))
        ledger.add(RecordingRow("one", str(scene.path), *facts, marks=MARKS))
        ledger.hear(
            "one", windows, key="scene", level=level, sound_bytes=size // 20, access="index"
        )
        labels = {span_of(pick): label_of(script, pick) for pick in picks}
        tags = {span: [label, "room noise"] for span, label in labels.items() if label}
        ledger.choose("one", picks, tags=tags, rule="rank", forecast=0.81)
        for place, pick in enumerate(picks):
            span = span_of(pick)
            ledger.keep_frames("one", PickFrames(span, shots[int(pick.instant)], 12, 1, 40_000))
            ask(ledger, CallRow(f"call {pick.window}", "one", span, "tiny-vl"), place, labels)
    return folder / "run"


def ask(ledger: Run, call: CallRow, place: int, labels: dict[Span, str]) -> None:
    """The first answer is hostile, the second call fails, the third is not asked, ..."""
    ledger.unanswered([call])
    if place == 2:
        return
    ledger.begin(call)
    if place == 1:
        ledger.fail(call, "the server said 500 <i>and no more</i>")
        return
    text = HOSTILE if place == 0 else CAPTIONS.get(labels[call.span], "Nothing happens: a bench.")
    answer = Answer(text, "tiny-vl", prompt_tokens=310, completion_tokens=24, latency=0.7)
    ledger.keep(call, answer, spend=0.0004)


def hear(script: Script) -> tuple[Windows, Track]:
    """Loudness as the score, in windows of four seconds."""
    sound = script.sound()
    steps = sound[: len(sound) // 8000 * 8000].reshape(-1, 8000)
    level = Track(10 * np.log10(np.mean(steps**2, axis=1) + 1e-9), hop=0.5)
    count = int(np.ceil(script.duration / 4))
    scores = np.array([level.values[8 * place : 8 * place + 8].max() for place in range(count)])
    scores = (scores - scores.min()) / np.ptp(scores)
    instants = np.minimum((np.arange(count) + 0.5) * 4, script.duration)
    return Windows(4.0, script.duration, scores, instants, scores**2, SHORT), level


def span_of(pick: Pick) -> Span:
    """When a pick is."""
    return Span(pick.start, pick.end)


def label_of(script: Script, pick: Pick) -> str:
    """What is done in a window; empty when nothing is."""
    doing = [one for one in script.actions if one.start < pick.end and pick.start < one.end]
    return doing[0].label if doing else ""


def album(script: Script) -> list[bytes]:
    """The frames of a scene as JPEGs, one a second."""
    return [Frame(0.0, frame).jpeg(80) for frame in script.pictures(fps=1)]


def tell_shift(folder: Path, *, hours: float = 3.0, share: float = 0.2) -> Path:
    """A run of one long recording that is not there any more, every pick answered."""
    script = Script.compose(seed=5, duration=60.0)
    rng = np.random.default_rng(1)
    count = round(hours * 900)
    busy = np.repeat(rng.random(count // 30 + 1) ** 3, 30)[:count]
    scores = np.clip(busy + 0.2 * rng.random(count), 0, 1)
    duration = hours * 3600
    windows = Windows(4.0, duration, scores, (np.arange(count) + 0.5) * 4, scores / 2, SHORT)
    level = Track(-60 + 40 * np.repeat(scores, 4) * rng.random(4 * count), hop=1.0)
    chosen = np.sort(np.argsort(-scores)[: round(share * count)])
    shots = album(script)[::5]
    with Run(folder / "shift", {"model": "tiny-vl", "budget": f"{share:.0%}"}) as ledger:
        ledger.add(
            RecordingRow("shift", str(folder / "gone.mp4"), duration, 4_000_000_000, 30.0, 324_000)
        )
        ledger.hear(
            "shift", windows, key="shift", level=level, sound_bytes=170_000_000, access="index"
        )
        ledger.choose("shift", explain(windows, chosen, "window {0}: {1:.1f} expected".format))
        ledger.fail_recording("deaf", "/cams/deaf.mp4", "deaf.mp4 has no audio stream")
        for place, window in enumerate(chosen.tolist()):
            span = windows.span(window)
            ledger.keep_frames("shift", PickFrames(span, shots[place % len(shots)], 20, 1, 90_000))
            call = CallRow(f"call {window}", "shift", span, "tiny-vl")
            ledger.unanswered([call])
            ledger.begin(call)
            words = list(CAPTIONS.values())[place % 4]
            ledger.keep(call, Answer(words, "tiny-vl", prompt_tokens=310, completion_tokens=24))
    return folder / "shift"


def tell_many(folder: Path, count: int, *, same: Container[int] = ()) -> Path:
    """A run of one recording with `count` picks, every fourth window; some answered the same."""
    shots = album(Script.compose(seed=5, duration=60.0))[:50]
    rates, instants = np.full(4 * count, 0.5), 4.0 * np.arange(4 * count) + 2
    windows = Windows(4.0, 16.0 * count, rates, instants, rates, SHORT)
    picks = explain(windows, np.arange(0, 4 * count, 4), "window {0}".format)
    calls = [CallRow(f"call {pick.window}", "many", pick.span, "tiny-vl") for pick in picks]
    with Run(folder, {"model": "tiny-vl"}) as ledger:
        ledger.add(RecordingRow("many", "/cams/many.mp4", 16.0 * count, 10**12))
        ledger.hear("many", windows, key="many")
        tags = {pick.span: ("water", "tap") for pick in picks}
        ledger.choose("many", picks, tags=tags)
        ledger.unanswered(calls)
        for place, call in enumerate(calls):
            ledger.keep_frames("many", PickFrames(call.span, shots[place % len(shots)]))
        with ledger.together():
            for place, call in enumerate(calls):
                words = f"A hand turns the tap, number {place}, and waits."
                told = "A bench, and nobody at it." if place in same else words
                ledger.keep(call, Answer(told, "tiny-vl"))
    return folder
