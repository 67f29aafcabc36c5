"""Encoders over published models keep the contract of every encoder."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from earmark import open_recording
from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names, not_manipulation
from earmark.gate.frontline import Frontline
from earmark.gate.listener import listen
from earmark.media import Sound
from earmark.models import MODELS, PRETRAINED
from earmark_lab.encoders.chunk_encoder import ChunkEncoder, logit
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES, PretrainedEncoder
from earmark_lab.encoders.query_encoder import max_pooled
from making import make_audio
from published_weights import saved, seeded_sound


def blocks(samples: np.ndarray, rate: int, *sizes: int) -> Iterator[Sound]:
    start = turn = 0
    while start < len(samples):
        size = sizes[turn % len(sizes)]
        yield Sound(samples[start : start + size], start / rate, rate)
        start, turn = start + size, turn + 1


def features(encoder: ChunkEncoder, samples: np.ndarray, *sizes: int) -> np.ndarray:
    sound = blocks(samples, encoder.sample_rate, *(sizes or (len(samples),)))
    tracks = list(encoder.encode(sound))
    for before, after in itertools.pairwise(tracks):
        assert after.start == pytest.approx(before.span.end)
    return np.concatenate([track.values for track in tracks])


def light(checkpoint: Path, **options: object) -> PretrainedEncoder:
    return PretrainedEncoder("frame-mn06", weights=str(checkpoint), **options)


@pytest.fixture(scope="module")
def encoder(light_checkpoint: Path) -> ChunkEncoder:
    return light(light_checkpoint)


@pytest.mark.parametrize("seconds", [0.01, 0.04, 3.0, 10.04, 16.0])
def test_one_row_a_step(encoder, seconds):
    rows = features(encoder, seeded_sound(seconds, 16_000))
    assert rows.shape == (math.ceil(seconds * 25), 447)
    assert rows.dtype == np.float32
    assert encoder.channels == 447
    assert np.isfinite(rows).all()


def test_neither_blocks_nor_batch_change_what_is_heard(encoder, light_checkpoint):
    sound = seeded_sound(22.0, 16_000)
    whole = features(encoder, sound)
    np.testing.assert_allclose(features(encoder, sound, 7_001, 64_000), whole, atol=1e-6)
    for batch in (1, 3):
        other = light(light_checkpoint, batch=batch)
        np.testing.assert_allclose(features(other, sound), whole, atol=1e-3)


def test_overlaps_are_means_of_posteriors(encoder):
    """5 to 10 s lie in two chunks; their posteriors are averaged, then taken to logit space."""
    sound = seeded_sound(15.0, 16_000)
    detector = encoder.network().detector
    with torch.inference_mode():
        chunks = torch.from_numpy(np.stack([sound[:160_000], sound[80_000:]]))
        first, second = torch.sigmoid(detector(chunks).double()).numpy()
    rows = features(encoder, sound)
    mean = (first[125:] + second[:125]) / 2
    expected = np.clip(np.log(mean) - np.log1p(-mean), -16.118, 16.118)
    np.testing.assert_allclose(rows[125:250], expected, atol=1e-3)
    np.testing.assert_allclose(rows[:125], logit(first[:125]), atol=1e-3)


def test_activity_is_the_surest_class_that_counts(light_checkpoint, encoder):
    sound = seeded_sound(4.0, 16_000)
    posteriors = 1 / (1 + np.exp(-features(encoder, sound).astype(float)))
    kept = [name not in not_manipulation() for name in class_names("audioset-strong")]
    expected = posteriors[:, kept].max(axis=1)
    detector = light(light_checkpoint, reads="activity")
    assert detector.channels == 1
    np.testing.assert_allclose(features(detector, sound), expected, atol=1e-5)
    middle = float(np.median(expected))
    strict = light(light_checkpoint, reads="activity", threshold=middle)
    rows = features(strict, sound)
    assert ((rows == 0) == (expected < middle - 1e-5)).mean() > 0.95
    others = class_names("audioset-strong")[1:]
    only = light(light_checkpoint, reads="activity", excluded=others)
    np.testing.assert_allclose(features(only, sound), posteriors[:, 0], atol=1e-5)
    none = class_names("audioset-strong")
    with pytest.raises(ValueError, match="all 447 classes are excluded"):
        features(light(light_checkpoint, reads="activity", excluded=none), sound)


def test_embeddings_are_what_the_head_reads(light_checkpoint, encoder):
    sound = seeded_sound(10.0, 16_000)
    beneath = light(light_checkpoint, reads="embeddings")
    rows = features(beneath, sound)
    assert rows.shape == (250, 576)
    assert beneath.channels == 576
    with torch.inference_mode():
        logits = encoder.network().detector.classify(torch.from_numpy(rows)).numpy()
    clipped = np.clip(logits, -16.118, 16.118)
    np.testing.assert_allclose(clipped, features(encoder, sound), atol=1e-3)


def test_what_was_heard_is_kept_under_the_weights_not_their_place(light_checkpoint, tmp_path):
    """The cache of scores goes by `repr`."""
    first = light(light_checkpoint)
    copy = tmp_path / "copy.pt"
    copy.write_bytes(light_checkpoint.read_bytes())
    fast = light(copy, batch=9)
    assert repr(fast) == repr(first)
    assert repr(light(copy, reads="activity")) != repr(first)
    held = torch.load(copy, weights_only=True)
    held["strong_head.bias"][0] += 1
    torch.save(held, copy)
    assert repr(light(copy)) != repr(first)


def test_an_encoder_can_be_sent_to_a_worker(encoder):
    again = pickle.loads(pickle.dumps(encoder))
    assert again == encoder
    sound = seeded_sound(1.0, 16_000)
    np.testing.assert_array_equal(features(again, sound), features(encoder, sound))


def test_a_folder_of_checkpoints_will_do(light_checkpoint):
    there, itself = light(light_checkpoint.parent), light(light_checkpoint)
    assert there.fingerprint() == itself.fingerprint()


def test_a_wrong_checkpoint_is_refused_before_anything_is_heard(light_checkpoint):
    with pytest.raises(ModelMismatch, match=r"frame_mn06_strong_1.pt is not BEATs"):
        PretrainedEncoder("beats", weights=str(light_checkpoint)).network()


def test_a_device_that_is_not_there_is_said(light_checkpoint):
    with pytest.raises(ValueError, match="PyTorch has no device 'cuda:77' here"):
        light(light_checkpoint, device="cuda:77").network()


def test_a_recording_is_listened_to(encoder, tmp_path):
    path = make_audio(tmp_path / "a.flac", duration=6.0, clicks=[1.0, 3.0])
    heard = listen(open_recording(str(path)), Frontline("frame-mn06", encoder))
    assert len(heard.scores) == 150
    assert heard.level is not None
    assert heard.is_heard


@pytest.mark.slow
def test_slowfast_hears_at_24_khz_and_speaks_for_the_middle_of_a_clip(tmp_path):
    checkpoint = saved(ARCHITECTURES["slowfast"], tmp_path / MODELS["slowfast"].file)
    encoder = PretrainedEncoder("slowfast", weights=str(checkpoint))
    path = make_audio(tmp_path / "a.flac", duration=3.0, clicks=[1.0])
    heard = listen(open_recording(str(path)), Frontline("slowfast", encoder))
    assert len(heard.scores) == 75
    assert heard.level is not None
    sound = seeded_sound(3.0, 24_000)
    rows = features(encoder, sound)
    with torch.inference_mode():
        clip = torch.from_numpy(sound[: 50 * 960])[None]
        logits = encoder.network().detector(clip)[0, 0]
    expected = logit(torch.softmax(logits, -1).numpy())
    finer = PretrainedEncoder("slowfast", weights=str(checkpoint), hop=0.08)
    np.testing.assert_allclose(features(finer, sound)[24], expected, atol=1e-2)
    assert rows.shape == (75, 44)
    assert len(np.unique(rows, axis=0)) == 8


def test_rates_fit_the_clock():
    for name in PRETRAINED:
        assert ARCHITECTURES[name].sample_rate % 25 == 0


class TestMaxPooling:
    def test_whole_groups(self):
        rows = np.arange(1000.0)[None, :, None]
        np.testing.assert_array_equal(max_pooled(rows, 250)[0, :, 0], np.arange(3, 1000, 4))

    def test_groups_that_share_a_row(self):
        """rows a b c on two steps: the one in the middle belongs to both"""
        rows = np.array([1.0, 5.0, 2.0])[None, :, None]
        np.testing.assert_array_equal(max_pooled(rows, 2)[0, :, 0], [5.0, 5.0])

    def test_fewer_rows_than_steps_are_held(self):
        rows = np.array([1.0, 2.0])[None, :, None]
        np.testing.assert_array_equal(max_pooled(rows, 4)[0, :, 0], [1, 1, 2, 2])


def test_logits_of_certainty_are_finite():
    assert np.abs(logit(np.array([0.0, 1.0]))).max() < 16.2
    np.testing.assert_allclose(logit(np.array([0.25])), np.log(1 / 3), rtol=1e-6)
