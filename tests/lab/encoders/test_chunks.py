"""Chunks on one clock, against an obvious loop."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from earmark.media import Sound
from earmark_lab.encoders.chunk_encoder import CLIPS, TEN_SECONDS, Layout, encode_in_chunks
from earmark_lab.encoders.convolutional import repeat_decisions
from earmark_lab.encoders.detector import build
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES
from published_weights import seeded_sound, seeded_weights, small

RATE = 250
"""Ten samples a step keep the drawings small."""

STEP = RATE // 25


def blocks(samples: np.ndarray, *sizes: int) -> Iterator[Sound]:
    start = turn = 0
    while start < len(samples):
        size = sizes[turn % len(sizes)]
        yield Sound(samples[start : start + size], start / RATE, RATE)
        start, turn = start + size, turn + 1


def means(layout: Layout):
    """Hears the mean of each step that a chunk speaks for, and how far into the chunk it is."""

    def hear(chunks: np.ndarray) -> np.ndarray:
        steps = chunks.reshape(len(chunks), layout.chunk, STEP).mean(axis=2)
        spoken = steps[:, layout.lead : layout.lead + layout.rows]
        place = np.broadcast_to(np.arange(layout.rows), spoken.shape)
        return np.stack([spoken, place], axis=2).astype(np.float32)

    return hear


def rows_of(samples: np.ndarray, layout: Layout, *sizes: int, batch: int = 3) -> np.ndarray:
    sound = blocks(samples.astype(np.float32), *(sizes or (len(samples),)))
    pieces, end = [], 0
    for rows, first in encode_in_chunks(
        sound, means(layout), layout=layout, sample_rate=RATE, batch=batch
    ):
        assert first == end
        end = first + len(rows)
        pieces.append(rows)
    return np.concatenate(pieces) if pieces else np.zeros((0, 2))


def slowly(samples: np.ndarray, layout: Layout) -> np.ndarray:
    """Every chunk by itself, every step averaged over the chunks that speak for it."""
    steps = math.ceil(len(samples) / STEP)
    starts = [0]
    while starts[-1] + layout.rows < steps:
        starts.append(starts[-1] + layout.hop)
    padded = np.pad(samples, (layout.lead * STEP, (steps + layout.chunk) * STEP))
    rows = np.zeros((steps, 2))
    for step in range(steps):
        speaking = [start for start in starts if start <= step < start + layout.rows]
        own = padded[(step + layout.lead) * STEP : (step + layout.lead + 1) * STEP].mean()
        rows[step] = own, np.mean([step - start for start in speaking])
    return rows


LAYOUTS = {
    "ten seconds every five": TEN_SECONDS,
    "ten seconds every two": TEN_SECONDS.with_hop(2.0),
    "ten seconds side by side": TEN_SECONDS.with_hop(10.0),
    "the middle of two seconds": CLIPS,
    "one step of two seconds": CLIPS.with_hop(0.04),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
class TestEveryLayout:
    @pytest.mark.parametrize("steps", [0.1, 1, 49, 124, 125, 250, 251, 375.5, 376, 1003])
    def test_equals_the_obvious_loop(self, layout, steps):
        samples = np.random.default_rng(0).standard_normal(round(steps * STEP))
        np.testing.assert_allclose(rows_of(samples, layout), slowly(samples, layout), atol=1e-4)

    def test_neither_batch_nor_blocks_matter(self, layout):
        samples = np.random.default_rng(1).standard_normal(7_003)
        whole = rows_of(samples, layout)
        for batch in (1, 2, 50):
            np.testing.assert_array_equal(rows_of(samples, layout, batch=batch), whole)
        np.testing.assert_array_equal(rows_of(samples, layout, 1, 777, 31, 2_500), whole)

    def test_nothing_gives_nothing(self, layout):
        assert len(rows_of(np.zeros(0), layout)) == 0


def test_no_more_than_a_batch_is_held():
    """However long the sound, chunks are heard as soon as there are enough."""
    read = heard = 0

    def sound() -> Iterator[Sound]:
        nonlocal read
        for block in blocks(np.zeros(200 * RATE, np.float32), 5 * RATE):
            read += 1
            assert read - heard <= 2 + 4
            yield block

    def hear(chunks: np.ndarray) -> np.ndarray:
        nonlocal heard
        heard += len(chunks)
        return np.zeros((len(chunks), 250, 1), np.float32)

    for _ in encode_in_chunks(sound(), hear, layout=TEN_SECONDS, sample_rate=RATE, batch=4):
        pass
    assert heard == 39


def test_one_row_a_chunk_is_held_for_all_it_speaks_for():
    samples = np.arange(100 * STEP, dtype=np.float32)

    def hear(chunks: np.ndarray) -> np.ndarray:
        return chunks.mean(axis=1)[:, None, None]

    pieces = encode_in_chunks(blocks(samples, 64), hear, layout=CLIPS, sample_rate=RATE, batch=2)
    rows = np.concatenate([rows for rows, _ in pieces])[:, 0]
    assert len(rows) == 100
    middle = rows[30:70].reshape(4, 10)
    assert (middle == middle[:, :1]).all()
    np.testing.assert_allclose(middle[:, 0], (35 + 10 * np.arange(4)) * STEP - 0.5)


def test_sound_at_another_rate_is_refused():
    sound = [Sound(np.zeros(100, np.float32), 0.0, 2 * RATE)]
    with pytest.raises(ValueError, match="hears 250 samples a second, not 500"):
        list(
            encode_in_chunks(
                sound, means(TEN_SECONDS), layout=TEN_SECONDS, sample_rate=RATE, batch=1
            )
        )


@pytest.mark.parametrize("seconds", [0.0, 0.05, -1.0, 10.04])
def test_a_hop_off_the_clock_is_refused(seconds):
    with pytest.raises(ValueError, match=r"chunks of 10 s cannot lie"):
        TEN_SECONDS.with_hop(seconds)


@pytest.mark.parametrize("offset", [0, 8])
def test_decisions_of_overlapping_chunks_fall_together(offset: int):
    """Cnn14 decides every eight steps: what changes, changes between two decisions."""
    layout = ARCHITECTURES["panns"].layout
    rng = np.random.default_rng(0)

    def hear(chunks: np.ndarray) -> np.ndarray:
        decided = torch.from_numpy(rng.standard_normal((len(chunks), 31, 1)))
        return repeat_decisions(decided).numpy().astype(np.float32)

    sound = blocks(np.zeros((610 + offset) * STEP, np.float32), 640)
    pieces = encode_in_chunks(sound, hear, layout=layout, sample_rate=RATE, batch=2)
    rows = np.concatenate([rows for rows, _ in pieces])[:, 0]
    assert len(rows) == 610 + offset
    changed = np.flatnonzero(np.diff(rows)) + 1
    assert len(changed) > 70 and (changed % 8 == 0).all()


def test_chunks_lie_whole_decisions_apart():
    layout = ARCHITECTURES["panns"].layout
    assert layout.with_hop(3.2).hop == 80
    with pytest.raises(ValueError, match=r"choose a multiple of 0.32 s"):
        layout.with_hop(5.0)


def test_chunks_of_panns_come_close_to_one_pass_over_the_whole():
    """The authors hear a file at once; what chunks change lies near their ends, and is averaged."""
    network = small("panns")
    detector = build(network).eval()
    detector.load_state_dict(seeded_weights(detector.state_dict()))
    sound = seeded_sound(61.0, network.sample_rate)

    def hear(chunks: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return torch.sigmoid(detector(torch.from_numpy(chunks))).numpy()

    def heard(layout: Layout) -> np.ndarray:
        pieces = encode_in_chunks(
            [Sound(sound, 0.0, 32_000)], hear, layout=layout, sample_rate=32_000, batch=8
        )
        return np.concatenate([rows for rows, _ in pieces])[:1520]

    with torch.inference_mode():
        spectrum = detector.spectrum(torch.from_numpy(sound)[None])
        whole = torch.sigmoid(detector.classify(detector.decide(spectrum)))[0].numpy()
    whole = np.repeat(whole, 8, axis=0)[:1520]
    own, even = heard(network.layout), heard(TEN_SECONDS)
    gap, correlation = abs(own - whole).mean(), np.corrcoef(own.ravel(), whole.ravel())[0, 1]
    worse, less = abs(even - whole).mean(), np.corrcoef(even.ravel(), whole.ravel())[0, 1]
    assert gap < 0.75 * worse and correlation > less and correlation > 0.99
