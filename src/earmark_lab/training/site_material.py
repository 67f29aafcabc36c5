"""Training material from made recordings: features in memory, kept on disk between runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earmark.features.encoder import SAMPLE_RATE, SoundEncoder
from earmark.gate.frontline import encoder_named
from earmark.media import Sound
from earmark.media.atomic_file import replacing
from earmark_lab.annotations.actions import Action
from earmark_lab.sites.site import Site, SiteGenerator
from earmark_lab.training.dataset import Features, Material, TrainingRecording, Watch


@dataclass(frozen=True, slots=True, eq=False)
class MadeMaterial:
    recordings: Material
    sites: dict[str, Site]

    def without(self, *, timings: tuple[str, ...], sounds: tuple[str, ...]) -> Material:
        """Recordings of other timing families in which none of the groups `sounds` is heard."""
        return {
            name: recording
            for name, recording in self.recordings.items()
            if self.sites[name].timing not in timings
            and not set(self.sites[name].sounds) & set(sounds)
        }


def gather_sites(
    generator: SiteGenerator,
    *,
    hours: float,
    seed: int,
    encoder: str,
    cache: Path,
    watch: Watch = lambda *_: None,
) -> MadeMaterial:
    """Features and actions of `hours` of made recordings; those stored in `cache` are not made."""
    listener = encoder_named(encoder)
    if not isinstance(listener, SoundEncoder):
        raise ValueError(f"made recordings have sound alone, which {encoder} does not read")
    material: Material = {}
    sites: dict[str, Site] = {}
    for plan in generator.plans(hours=hours, seed=seed):
        done = sum(recording.duration for recording in material.values())
        watch("making recordings", round(done), round(hours * 3600))
        choices = repr((generator, plan, listener))
        stem = hashlib.sha256(choices.encode()).hexdigest()[:32]
        path, spans = cache / f"{stem}.npz", cache / f"{stem}.actions.npy"
        if not path.is_file():
            made = generator.make(plan)
            with replacing(spans) as scratch:
                rows = [(action.start, action.end) for action in made.actions]
                np.save(scratch, np.array(rows).reshape(-1, 2))
            sound = Sound(made.samples, 0.0, SAMPLE_RATE)
            Features.of_sound([sound], listener).save(path)
        stored = Features.load(path)
        actions = tuple(Action(*row) for row in np.load(spans, allow_pickle=False).tolist())
        material[plan.name] = TrainingRecording(
            plan.name, plan.duration, (stored.features,), actions, level=stored.level,
            family=plan.site.timing,
        )  # fmt: skip
        sites[plan.name] = plan.site
    return MadeMaterial(material, sites)
