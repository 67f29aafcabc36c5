"""Speech made on the spot by espeak-ng, with the sentences and their times known."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import wave
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.signal import resample_poly

from earmark.media import Sound
from earmark.models import ModelStore
from earmark.models.catalogue import WHISPER

RATE = 16_000

needs_espeak = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng makes the speech, and is not installed"
)


def needs_models(*names: str) -> pytest.MarkDecorator:
    """Skips where one of the models is not in the user's store."""
    missing = [name for name in names if ModelStore().state(name) != "here"]
    reason = f"{', '.join(missing)} not here: earmark models get evidence"
    return pytest.mark.skipif(bool(missing), reason=reason)


needs_speech = needs_models("silero-vad", *WHISPER)


def say(text: str, *, voice: str = "en-gb", speed: int = 130) -> np.ndarray:
    """The sound of `text`, 16,000 samples a second."""
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "--stdout", text]
    made = subprocess.run(command, capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(made)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
        return resample_poly(samples, RATE, file.getframerate()).astype(np.float32)


def silence(seconds: float) -> np.ndarray:
    """A quiet room."""
    rng = np.random.default_rng(0)
    return 0.001 * rng.standard_normal(round(seconds * RATE)).astype(np.float32)


def blocks(samples: np.ndarray, *, seconds: float = 30.0) -> list[Sound]:
    """As a recording gives them."""
    size = round(seconds * RATE)
    starts = range(0, len(samples), size)
    return [Sound(samples[start : start + size], start / RATE, RATE) for start in starts]


def word_errors(reference: str, said: str) -> tuple[int, int]:
    """Words changed, left out or put in, and the words of `reference`."""
    wanted, found = (re.findall(r"[\w']+", text.lower()) for text in (reference, said))
    row: Sequence[int] = range(len(found) + 1)
    for place, word in enumerate(wanted, start=1):
        last, row = row, [place]
        for column, other in enumerate(found):
            row.append(min(row[-1] + 1, last[column + 1] + 1, last[column] + (word != other)))
    return row[-1], len(wanted)
