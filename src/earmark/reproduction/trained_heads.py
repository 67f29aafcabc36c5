"""Heads trained here as the paper says, kept in the folder, and used again by every table."""

from __future__ import annotations

import shutil
from pathlib import Path

from earmark.gate.gate import Gate
from earmark.media.atomic_file import replacing
from earmark.reproduction.material import Material as Given
from earmark.reproduction.published_quantities import primary_of
from earmark.training.dataset import Material, gather
from earmark.training.settings import Settings, settings_of


def paper_gate(given: Given) -> Path:
    """The first seed of the span-level heads, kept under a name of its own."""
    encoder = given.plan.encoders[0]
    train_gates(given, encoder, "span")
    settings = settings_for(given, encoder, "span")
    trained = gates_folder(given, encoder, settings) / f"seed-{settings.first_seed}.gate"
    with replacing(given.folder / "paper.gate") as scratch:
        shutil.copyfile(trained, scratch)
    return given.folder / "paper.gate"


def settings_for(given: Given, encoder: str, objective: str) -> Settings:
    """The paper's settings over `encoder`, with what the plan has otherwise."""
    return settings_of(
        "paper", encoder, **{**given.plan.settings, "objective": objective},
        seeds=given.plan.seeds,
    )  # fmt: skip


def train_gates(given: Given, encoder: str, objective: str) -> tuple[list[Gate], Material]:
    """A gate a seed, trained as the paper says and kept; and the features of whom they judge."""
    settings, split = settings_for(given, encoder, objective), given.split
    heard = gather_actions(given, encoder)
    others = {name: heard.pop(name) for name in split.judged}
    judged = {name: others[name] for name in primary_of(others)}
    folder = gates_folder(given, encoder, settings)
    files = [folder / f"seed-{seed}.gate" for seed in settings.all_seeds]
    if not all(path.is_file() for path in files):
        from earmark.training.recipe import Provenance, describe_run, finish_seeds, fit_heads

        origin = Provenance(given.plan.audio_is, "of the data")
        ensemble = fit_heads(
            heard,
            settings,
            split.development,
            folder=folder,
            watch=lambda step: given.progress(
                step.done, step.steps, f"{objective} over {encoder}, seed {step.seed}"
            ),
        )
        run = describe_run(heard, settings, split.development, origin)
        finish_seeds(heard, settings, ensemble, folder=folder, run=run)
    return [Gate.load(path) for path in files], judged


def gather_actions(given: Given, encoder: str) -> Material:
    """The features of everybody: trained on, chosen on and judged."""
    split = given.split
    return gather(
        given.marked.only([*split.training, *split.development, *split.judged]),
        media_folders(given),
        encoder=encoder,
        cache=given.folder / "kept" / "features",
        watch=lambda what, done, total: given.progress(done, total, f"{what}: {encoder}"),
    )


def gates_folder(given: Given, encoder: str, settings: Settings) -> Path:
    """Where the heads of one training are kept."""
    name = f"gates-{settings.objective}-{encoder.partition(':')[0]}"
    return given.room(name, settings.to_json() | given.learnt_from())


def media_folders(given: Given) -> list[Path]:
    """Where the media lie."""
    return list(dict.fromkeys(Path(each.uris[0]).parent for each in given.media.values()))
