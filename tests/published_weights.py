"""Weights and sound that are the same on every machine, for models whose weights cannot be had.

Nothing is drawn from PyTorch's generator, whose stream may change: NumPy promises that
`RandomState` never does.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from earmark.features.sound_tags import class_names
from earmark_lab.encoders.audio_transformers import TransformerSize
from earmark_lab.encoders.detector import build
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES, Architecture

BLOCK = np.random.RandomState(0).standard_normal(1 << 20).astype(np.float32)
"""Drawn once; a weight takes as much as it needs from a place of its own."""


SMALL = TransformerSize(width=32, heads=2, layers=3)


def small(name: str) -> Architecture:
    """The published model at a size that loads in no time, its names and layout unchanged."""
    options = {
        "frame-mn06": (("width", 0.1),),
        "frame-mn10": (("width", 0.1),),
        "panns": (("channels", 2),),
        "slowfast": (("channels", 8),),
    }.get(name, (("size", SMALL),))
    return replace(ARCHITECTURES[name], options=options)


def make_small(monkeypatch: pytest.MonkeyPatch, name: str) -> Architecture:
    """Let the published model `name` be small for one test."""
    architecture = small(name)
    monkeypatch.setitem(ARCHITECTURES, name, architecture)
    return architecture


def saved(architecture: Architecture, path: Path, **changes: object) -> Path:
    """A checkpoint of random weights, laid out as published, with `changes` to its entries."""
    held = as_published(seeded_weights(build(architecture).state_dict()), architecture)
    section = architecture.section
    inner = held[section] if section else held
    for name, value in changes.items():
        if value is None:
            del inner[name]
        else:
            inner[name] = value
    torch.save(held, path)
    return path


def seeded_weights(shapes: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Random weights by name and shape, of a size at which signals neither die nor explode."""
    return {name: _weight(name, like) for name, like in shapes.items()}


def seeded_sound(seconds: float, sample_rate: int) -> np.ndarray:
    """Noise whose level wanders, a tone that comes and goes, and clicks; `(samples,)` float32."""
    random = np.random.RandomState(7)
    times = np.arange(round(seconds * sample_rate)) / sample_rate
    sound = 0.05 * random.standard_normal(len(times)) * (0.2 + np.sin(0.6 * np.pi * times) ** 2)
    sound += 0.1 * np.sin(2 * np.pi * 440 * times) * (np.sin(0.5 * np.pi * times) > 0)
    for click in random.uniform(0, seconds, 8):
        first = int(click * sample_rate)
        sound[first : first + 200] *= 8
    return np.clip(sound, -1, 1).astype(np.float32)


def as_published(
    weights: Mapping[str, torch.Tensor], architecture: Architecture
) -> dict[str, object]:
    """`weights` under the names and in the section in which they are published."""
    named = dict(weights)
    for old, new in reversed(architecture.renamed[:1]):
        named = {name.replace(new, old, 1): value for name, value in named.items()}
    if "weak_head." in architecture.unused:
        classes = len(class_names(architecture.vocabulary))
        named["weak_head.weight"] = torch.zeros(classes, architecture.width)
        named["weak_head.bias"] = torch.zeros(classes)
    section = architecture.section
    return {section: named, "epoch": 7} if section else named


def _weight(name: str, like: torch.Tensor) -> torch.Tensor:
    if not like.is_floating_point():
        return torch.zeros_like(like)
    draw = _draw(name, like.numel()).reshape(tuple(like.shape))
    if name.startswith("bn0.running"):  # levels in dB come in here
        draw = 0 * draw + (400.0 if name.endswith("var") else -40.0)
    elif name.endswith("c_bn.weight"):  # the news beside a shortcut, which would add up
        draw = 0.3 + 0.1 * draw
    elif name.endswith("running_var"):
        draw = 0.9 + 0.2 * np.abs(draw)
    elif (name.endswith("weight") and like.ndim == 1) or name.endswith(("original0", "grep_a")):
        draw = 1.0 + 0.1 * draw
    elif like.ndim == 1:
        draw = 0.1 * draw
    elif name.endswith(("embed", "token", "relative_attention_bias.weight")):
        draw = 0.3 * draw
    else:  # what comes in keeps its size on the way out of a ReLU
        draw = draw * np.sqrt(2.0 / np.prod(like.shape[1:]))
    return torch.from_numpy(np.ascontiguousarray(draw, dtype=np.float32))


def _draw(name: str, count: int) -> np.ndarray:
    start = zlib.crc32(name.encode()) % len(BLOCK)
    if start + count <= len(BLOCK):
        return BLOCK[start : start + count]
    return np.resize(np.roll(BLOCK, -start), count)
