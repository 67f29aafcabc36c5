"""The demo's scene is heard, read and seen for what it is by the published models."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Span
from earmark.evidence.picture_evidence import picture_evidence
from earmark.features.yamnet import YAMNet
from earmark.media import Frame, Sound
from earmark.models.catalogue import PPOCR
from earmark_lab.demo import NOISES, SIGN, draw_bench, normalise_and_fade, room_noise
from made_speech import RATE, needs_models

HEARD = {"hammer": "Hammer", "rinse": "Water", "voice": "Speech", "rub": "Sanding"}


@needs_models("yamnet")
@pytest.mark.parametrize(("kind", "name"), HEARD.items())
def test_a_sound_is_named_for_what_it_is(kind: str, name: str):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    rng, count = np.random.default_rng(1), 4 * RATE
    noise = normalise_and_fade(NOISES[kind](rng, count, RATE), RATE)
    sound = (room_noise(rng, count, RATE) + 0.4 * noise).astype(np.float32)
    encoder = YAMNet()
    tracks = encoder.encode([Sound(sound, 0.0, RATE)])
    best = np.max([track.values.max(axis=0) for track in tracks], axis=0)
    likely = [encoder.classes[place] for place in np.argsort(-best)[:4]]
    assert name in likely, likely


@needs_models("efficientdet-lite0", *PPOCR)
def test_the_sign_is_read_and_the_clock_is_seen():
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    look = picture_evidence()
    assert look is not None
    found = look([Frame(0.0, draw_bench(480, 360))], Span(0.0, 4.0))
    assert {"read": SIGN, "seen": "clock"}.items() <= {
        each.kind: each.text for each in found
    }.items()


@pytest.mark.parametrize("size", [(64, 48), (320, 240), (640, 352)])
def test_it_is_drawn_at_any_size(size: tuple[int, int]):
    assert draw_bench(*size).shape == (size[1], size[0], 3)
