"""Made recordings of work, with their actions: what was drawn for a site, and its sound.

timing ──▶ actions ──▶ work sounds ──▶ room ─┐
                       ambience, strays ─────┴─▶ microphone ──▶ MadeRecording
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import wavfile
from scipy.signal import oaconvolve

from earmark.features.encoder import SAMPLE_RATE
from earmark.media.atomic_file import replacing, write_whole
from earmark.text_format import write_csv
from earmark.timeline import FloatArray
from earmark_lab.annotations.actions import Action
from earmark_lab.sites import physics
from earmark_lab.sites.codecs import encode
from earmark_lab.sites.library import SHARES, Library, read_library
from earmark_lab.sites.microphone import MICROPHONES, limit
from earmark_lab.sites.physics import Draw, faded, level, log_uniform
from earmark_lab.sites.talk import conversation, talk
from earmark_lab.sites.timing import TIMINGS, schedule, timings_in

SOUNDS: dict[str, tuple[tuple[str, ...], tuple[Draw, ...]]] = {
    "impacts": (
        ("door_wood_knock", "can_opening", "glass_breaking", "mouse_click", "keyboard_typing",
         "clapping"),
        (physics.impacts,),
    ),
    "friction": (("hand_saw", "door_wood_creaks", "brushing_teeth"), (physics.friction,)),
    "motors": (
        ("vacuum_cleaner", "chainsaw"), (physics.loaded_motor, physics.motor, physics.pulsing),
    ),
    "liquids": (
        ("pouring_water", "water_drops", "drinking_sipping", "toilet_flush"), (physics.liquid,),
    ),
    "handling": ((), (physics.handling,)),
}  # fmt: skip
"""Classes of recorded sounds and models of each group of work sounds."""

AMBIENCES: dict[str, tuple[tuple[str, ...], tuple[Draw, ...]]] = {
    "none": ((), ()),
    "steady": (
        ("rain", "airplane", "helicopter", "train", "engine", "washing_machine", "crickets",
         "insects"),
        (physics.banded, physics.coloured, physics.motor, physics.pulsing),
    ),
    "gusty": (("wind", "sea_waves", "crackling_fire"), (physics.gusts, physics.drops)),
    "voices": ((), (conversation,)),
    "music": ((), (physics.music,)),
    "walking": (("footsteps",), (physics.footsteps,)),
}  # fmt: skip

STRAYS = (
    "dog", "cat", "car_horn", "siren", "church_bells", "rooster", "crow", "cow", "sheep", "pig",
    "hen", "frog", "sneezing", "coughing", "laughing", "crying_baby", "snoring", "clock_alarm",
    "fireworks", "thunderstorm", "chirping_birds", "breathing", "clock_tick",
)  # fmt: skip
"""Classes of sounds that belong to no action."""

MINUTES = (8.0, 24.0)

SHORTEST = 60.0
"""Seconds of a recording."""

AS_ANNOTATED = 0.25
"""Share of the sites without idle time between bouts."""

OCCUPANCY = (0.03, 0.6)
"""Share of the time in bouts, elsewhere."""

RECORDED = 0.6
"""Share of the sounds that are recorded, not made by a model."""

EVENTS = (0.3, 10.0)
"""Seconds of one sound of an action."""

STRAY_EVENTS = (0.3, 5.0)
"""Seconds."""

SHORT = 4.0
"""Seconds up to which an action that is heard is heard throughout."""


@dataclass(frozen=True, slots=True)
class Site:
    timing: str
    sounds: tuple[str, ...]
    """One or two groups of work sounds."""
    ambience: str
    microphone: str
    minutes: float
    occupancy: float
    """Share of the time in bouts of work; 1 for timing as annotated."""
    silent: float
    """Share of the actions without any sound."""
    audible: float
    """Share of a long action in which it sounds."""
    loudness_db: float
    """Of work sounds above the ambience."""
    ambience_db: float
    """Relative to full scale."""
    decay: float
    """Seconds in which sound fades by 60 dB in the room."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Plan:
    """A recording that is not made yet."""

    name: str
    """`site0007_goalstep`: number and timing family."""
    site: Site
    duration: float
    seed: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class MadeRecording:
    name: str
    site: Site
    samples: FloatArray
    """16 kHz, float32."""
    actions: tuple[Action, ...]

    @property
    def duration(self) -> float:
        return len(self.samples) / SAMPLE_RATE


@dataclass(frozen=True, slots=True, eq=False)
class SiteGenerator:
    """Sites of the families given, from the sounds and timings of one part of `data`.

    Without `data` sounds come from models alone, and timings from semi-Markov workers.
    """

    data: Path | None = None
    part: str = "train"
    """Of authors and annotated recordings: `train`, `dev` or `test`."""
    timings: Sequence[str] = ()
    """Empty for all that `data` allows; likewise below."""
    sounds: Sequence[str] = tuple(SOUNDS)
    ambiences: Sequence[str] = tuple(AMBIENCES)

    def __post_init__(self) -> None:
        if self.part not in SHARES:
            raise ValueError(f"no part {self.part!r}; there are {', '.join(SHARES)}")
        for kind, names, known in (
            ("timing family", self.timings, TIMINGS),
            ("group of sounds", self.sounds, SOUNDS),
            ("ambience", self.ambiences, AMBIENCES),
        ):
            unknown = [name for name in names if name not in known]
            if unknown:
                raise ValueError(f"no {kind} {unknown[0]!r}; there are {', '.join(known)}")

    def plans(self, *, hours: float, seed: int) -> Iterator[Plan]:
        """Recordings of `hours` in all; timing families take turns, and the last one is cut."""
        if not hours * 3600 >= SHORTEST:
            raise ValueError(f"made recordings last at least {SHORTEST:g} s, not {hours} h")
        families = list(timings_in(self.data, self.timings, part=self.part))
        left, number = hours * 3600, 0
        while left >= SHORTEST:
            timing = families[number % len(families)]
            site = self._draw(timing, np.random.default_rng((seed, number)))
            yield Plan(
                f"site{number:04d}_{timing}", site, min(60 * site.minutes, left), seed, number
            )
            left, number = left - 60 * site.minutes, number + 1

    def make(self, plan: Plan) -> MadeRecording:
        rng = np.random.default_rng((plan.seed, plan.number))
        site = self._draw(plan.site.timing, rng)
        timing = timings_in(self.data, [site.timing], part=self.part)[site.timing]
        actions = schedule(timing, plan.duration, site.occupancy, rng)
        scene = _Scene(site, read_library(self.data, self.part), rng)
        samples = scene.render(actions, plan.duration)
        return MadeRecording(plan.name, site, samples, tuple(actions))

    def recordings(self, *, hours: float, seed: int) -> Iterator[MadeRecording]:
        return map(self.make, self.plans(hours=hours, seed=seed))

    def _draw(self, timing: str, rng: np.random.Generator) -> Site:
        groups = rng.permutation(list(self.sounds))[: int(rng.integers(1, 3))]
        drowned = rng.random() < 0.12
        return Site(
            timing=timing,
            sounds=tuple(map(str, groups)),
            ambience=str(rng.choice(list(self.ambiences))),
            microphone=str(rng.choice(list(MICROPHONES))),
            minutes=round(rng.uniform(*MINUTES), 2),
            occupancy=1.0 if rng.random() < AS_ANNOTATED else log_uniform(rng, OCCUPANCY),
            silent=rng.uniform(0.1, 0.55),
            audible=rng.uniform(0.1, 0.8),
            loudness_db=rng.uniform(-4, 6) if drowned else rng.uniform(8, 34),
            ambience_db=rng.uniform(-66, -40),
            decay=rng.uniform(0.1, 0.9),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    site: Site
    library: Library
    rng: np.random.Generator

    def render(self, actions: Sequence[Action], duration: float) -> FloatArray:
        count = round(duration * SAMPLE_RATE)
        site, rng = self.site, self.rng
        quiet = 10 ** (site.ambience_db / 20)
        scene = quiet * _reverberated(self._work(actions, count), site.decay, rng)
        scene += quiet * self._ambience(count)
        scene += quiet * self._strays(count)
        recorded = MICROPHONES[site.microphone](limit(scene.astype(np.float32), 0.7), rng)
        return recorded.clip(-1, 1).astype(np.float32)

    def _work(self, actions: Sequence[Action], count: int) -> FloatArray:
        site, rng = self.site, self.rng
        work = np.zeros(count, np.float32)
        palette = [self._draw_of(SOUNDS[str(rng.choice(site.sounds))]) for _ in range(8)]
        for action in actions:
            if rng.random() < site.silent:
                continue
            draw = palette[int(rng.integers(len(palette)))]
            gain = 10 ** ((site.loudness_db + rng.normal(0, 4)) / 20)
            for start, lasts in self._events(action):
                first, size = round(start * SAMPLE_RATE), round(lasts * SAMPLE_RATE)
                part = work[first : first + size]
                if len(part) >= SAMPLE_RATE // 10:
                    part += gain * faded(level(draw(len(part), rng)), 0.03)
        return work

    def _events(self, action: Action) -> Iterator[tuple[float, float]]:
        """Start and length of the sounds of an action that is heard."""
        rng = self.rng
        if action.duration <= SHORT:
            yield action.start, action.duration
            return
        left = action.duration * np.clip(self.site.audible * rng.lognormal(0, 0.3), 0.05, 1)
        start = action.start if rng.random() < 0.5 else None
        while left > 0:
            lasts = min(log_uniform(rng, EVENTS), action.duration)
            start = rng.uniform(action.start, action.end - lasts) if start is None else start
            yield start, lasts
            left, start = left - lasts, None

    def _ambience(self, count: int) -> FloatArray:
        """Room noise, and ambience in one to four places of other levels."""
        rng, site = self.rng, self.site
        sound = rng.uniform(0.1, 1.0) * level(physics.coloured(count, rng)).astype(np.float32)
        kinds = AMBIENCES[site.ambience]
        if not any(kinds):
            return sound
        edges = np.sort(rng.uniform(0, count, int(rng.integers(0, 4)))).astype(int).tolist()
        for first, last in zip([0, *edges], [*edges, count], strict=True):
            size = last - first
            if size >= 2 * SAMPLE_RATE:
                place = faded(level(self._draw_of(kinds)(size, rng)), rng.uniform(0.5, 5))
                louder = (-6, 16) if site.ambience in ("voices", "music", "walking") else (-8, 4)
                sound[first:last] += 10 ** (rng.uniform(*louder) / 20) * place
        return sound

    def _strays(self, count: int) -> FloatArray:
        """Sounds that belong to no action, one in 40 to 600 s: animals, alarms, people; no work."""
        rng, strays = self.rng, np.zeros(count, np.float32)
        many = rng.poisson(count / SAMPLE_RATE / log_uniform(rng, (40, 600)))
        for first in rng.integers(0, count, many).tolist():
            size = min(round(log_uniform(rng, STRAY_EVENTS) * SAMPLE_RATE), count - first)
            draw = self._draw_of((STRAYS, (talk,)))
            if size >= SAMPLE_RATE // 10:
                gain = 10 ** (rng.uniform(0, 26) / 20)
                strays[first : first + size] += gain * faded(level(draw(size, rng)), 0.05)
        return strays

    def _draw_of(self, kinds: tuple[tuple[str, ...], tuple[Draw, ...]]) -> Draw:
        """A recorded clip or a model with fixed parameters: one source of sound."""
        rng, (labels, models) = self.rng, kinds
        clips = self.library.of(labels)
        if clips and (not models or rng.random() < RECORDED):
            samples = self.library.samples(clips[int(rng.integers(len(clips)))])
            if len(samples) > SAMPLE_RATE // 5:
                return partial(_excerpt, samples)
        model, seed = models[int(rng.integers(len(models)))], int(rng.integers(1 << 32))
        return lambda count, _: model(count, np.random.default_rng(seed))


def _excerpt(samples: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """From the beginning if it fits, else from anywhere; repeated, with fades, if it is longer."""
    if count < len(samples):
        first = 0 if rng.random() < 0.5 else int(rng.integers(len(samples) - count))
        return samples[first : first + count]
    ramp = len(samples) // 8
    piece = faded(samples, ramp / SAMPLE_RATE).astype(np.float32)
    step = len(samples) - ramp
    joined = np.zeros(count + len(samples), np.float32)
    for first in range(0, count, step):
        joined[first : first + len(piece)] += piece
    return joined[:count]


def _reverberated(samples: FloatArray, decay: float, rng: np.random.Generator) -> FloatArray:
    times = np.arange(round(decay * SAMPLE_RATE)) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * np.exp(-6.9 * times / decay)
    tail *= rng.uniform(0.1, 0.6) / np.sqrt((tail**2).sum())
    tail[0] = 1.0
    heard: FloatArray = oaconvolve(samples, tail.astype(np.float32))[: len(samples)]
    return heard


FORMATS = ("opus", "wav")

OPUS_BIT_RATE = 48_000


def write_sites(
    generator: SiteGenerator,
    folder: Path,
    *,
    hours: float,
    seed: int,
    format: str = "opus",  # noqa: A002
) -> Iterator[MadeRecording]:
    """Writes every recording, then `actions.csv` and `sites.json`, and yields what was written."""
    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, float, float, str]] = []
    sites: dict[str, Any] = {}
    for made in generator.recordings(hours=hours, seed=seed):
        with replacing(folder / f"{made.name}.{format}") as scratch:
            if format == "opus":
                scratch.write_bytes(encode(made.samples, "opus", OPUS_BIT_RATE))
            else:
                wavfile.write(scratch, SAMPLE_RATE, np.rint(32_767 * made.samples).astype("<i2"))
        rows += [(made.name, round(a.start, 3), round(a.end, 3), a.label) for a in made.actions]
        sites[made.name] = made.site.to_json()
        yield made
    table = io.StringIO()
    write_csv(table, ["recording", "start", "end", "label"], rows)
    write_whole(folder / "actions.csv", table.getvalue())
    write_whole(folder / "sites.json", json.dumps(sites, indent=1))
