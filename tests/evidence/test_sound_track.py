"""Named sounds as events: a letter is a cell, and how likely one class is there."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.evidence.sound_query import broader, family_of, narrower, subclasses
from earmark.evidence.sound_track import CELL, MIN_PROBABILITY, SoundTrack, SoundTracker
from earmark.features.yamnet import YAMNet
from earmark.media import Meter, Sound
from earmark.models import ModelStore
from earmark.models.sessions import class_names
from making import make_audio
from quiet_shift import require_yamnet, script

LIKELY = {"D": 0.9, "d": 0.2, ".": 0.0}
NAMES = ("Drill", "Power tool", "Speech", "Silence", "Inside, small room")


def track(hop: float = 1.0, **drawings: str) -> SoundTrack:
    """A track of classes, each drawn; underscores are spaces."""
    rows = [
        (cell, NAMES.index(name.replace("_", " ")), np.log(LIKELY[sign] / (1 - LIKELY[sign])))
        for name, drawing in drawings.items()
        for cell, sign in enumerate(drawing)
        if LIKELY[sign]
    ]
    cells, classes, logits = map(np.array, zip(*sorted(rows), strict=True)) if rows else [[]] * 3
    duration = hop * max(map(len, drawings.values()))
    return SoundTrack(
        "drawn",
        NAMES,
        0.4,
        0.0,
        hop,
        duration,
        np.asarray(cells, np.intp),
        np.asarray(classes, np.int16),
        np.asarray(logits, np.float32),
    )


def drawn(made: SoundTrack, name: str) -> str:
    """The events of one class, drawn."""
    cells = ["."] * round(made.duration / made.hop)
    for event in made.events():
        if event.text == name:
            for cell in range(round(event.span.start), round(event.span.end)):
                cells[cell] = "="
    return "".join(cells)


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        ("..dDDd..", "..====.."),
        ("..dddd..", "........"),  # never sure
        ("D.D.....D", "===.....="),  # a pause of up to four seconds is none
        ("DDDDDDDD", "========"),
        ("........", "........"),
    ],
)
def test_an_event_begins_and_ends_with_its_sound(heard, told):
    assert drawn(track(Drill=heard), "Drill") == told


def test_a_broad_sound_within_its_kind_is_told_as_that_kind():
    made = track(Drill="..DDDD........", Power_tool=".DDDDD......DD")
    assert drawn(made, "Drill") == "..====........"
    assert drawn(made, "Power tool") == "............=="


def test_rooms_and_silence_are_no_sounds():
    made = track(Silence="DDDD", Speech="D...")
    assert [event.text for event in made.events()] == ["Speech"]
    assert made.names_in(Span(0.0, 4.0)) == ("Speech",)


def test_a_weight_a_class_makes_one_track_of_all():
    made = track(Drill=".D..", Speech="..D.")
    weights = np.array([1.0, 0.6, 0.0, 0.0, 0.0])
    assert made.strongest(weights).values == pytest.approx([0, 0.9, 0, 0])


def test_faint_sounds_count_by_how_much_of_the_question_they_mean():
    heard = track(Drill="..d.D.", Speech="....D.").mean_logits(np.array([0.75, 0, 0.25, 0, 0]))
    least, faint, loud = (np.log(p / (1 - p)) for p in (MIN_PROBABILITY, 0.2, 0.9))
    assert heard.values == pytest.approx(
        [least, least, 0.75 * faint + 0.25 * least, least, loud, least], abs=1e-5
    )


def test_every_name_of_the_table_is_a_class_and_none_is_a_kind_of_itself():
    require_yamnet()
    names = set(class_names(ModelStore().find("yamnet")))
    told = set(subclasses()) | {each for own in subclasses().values() for each in own}
    assert told <= names
    assert all(name not in narrower(name) for name in subclasses())
    assert broader("Drill") == {"Power tool", "Tools"}
    assert family_of("Drill", {"Tools", "Power tool"}) == "Power tool"


class Deaf:
    """Hears nothing, a block at a time."""

    name, cell, classes, onset, overhang = "deaf", CELL, NAMES, 0.4, 0.0

    def cell_logits(self, sound, _):
        for block in sound:
            yield 0, len(block) // 640, np.zeros(0, np.intp), np.zeros((0, len(NAMES)))


def test_what_was_passed_on_is_let_go():
    held = []

    def blocks():
        for place in range(20):
            samples = np.zeros(16_000, np.float32)
            held.append(weakref.ref(samples))
            yield Sound(samples, float(place), 16_000)

    most = 0
    for _ in SoundTracker(Deaf()).pass_through(blocks()):
        most = max(most, sum(each() is not None for each in held))
    assert len(held) == 20 and most <= 3


@pytest.mark.slow
def test_what_is_overheard_is_passed_on_and_named_however_it_is_cut(tmp_path):
    require_yamnet()
    encoder = YAMNet(cell=CELL, weights=ModelStore().find("yamnet"))
    sound = np.concatenate([np.zeros(64_000, np.float32), script().drill(0), np.zeros(64_000)])
    found = []
    for size in (16_000, 5_000, 100_000):
        blocks = [
            Sound(sound[first : first + size].astype(np.float32), first / 16_000, 16_000)
            for first in range(0, len(sound), size)
        ]
        tracker = SoundTracker(encoder)
        passed = list(tracker.pass_through(iter(blocks)))
        assert [id(each) for each in passed] == [id(each) for each in blocks]
        found.append(tracker.track())
    events = [one.events() for one in found]
    assert events[0] == events[1] == events[2]
    (drilling,) = (event for event in events[0] if event.text == "Drill")
    assert drilling.span.start == pytest.approx(4.0, abs=1.0)
    assert drilling.span.end == pytest.approx(12.0, abs=1.0)


@pytest.mark.slow
def test_names_from_the_track_are_those_from_listening_to_the_windows(tmp_path):
    require_yamnet()
    recording = open_recording(make_audio(tmp_path / "a.flac", duration=20.0, clicks=[3.0, 11.0]))
    encoder = YAMNet(cell=CELL, weights=ModelStore().find("yamnet"))
    tracker = SoundTracker(encoder)
    for _ in tracker.pass_through(recording.sound(sample_rate=16_000, meter=Meter())):
        pass
    spans = [Span(start, start + 4.0) for start in np.arange(0.0, 20.0, 4.0)]
    assert [tracker.track().names_in(span) for span in spans] == encoder.tags(recording, spans)
