"""Sound through the real codecs of cameras and phones: AAC in MP4, Opus in Ogg."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
from scipy.signal import resample_poly

from earmark.features.encoder import SAMPLE_RATE
from earmark.timeline import FloatArray

FORMATS = {"aac": ("mp4", "aac", "fltp"), "opus": ("ogg", "libopus", "flt")}
"""Container, encoder and sample format."""

FASTEST = {"aac": {"aac_coder": "fast"}, "opus": {"compression_level": "0"}}

BLOCK = 1 << 16
"""Samples given to the encoder at once."""


def encode(samples: FloatArray, codec: str, bit_rate: int) -> bytes:
    """A file of mono sound at 16 kHz; the same samples give the same bytes."""
    container, name, kind = FORMATS[codec]
    file = io.BytesIO()
    with av.open(file, "w", format=container, options={"fflags": "+bitexact"}) as output:
        stream: Any = output.add_stream(name, rate=SAMPLE_RATE, layout="mono")
        stream.bit_rate = bit_rate
        stream.options = FASTEST[codec]
        for first in range(0, len(samples), BLOCK):
            block = np.ascontiguousarray(samples[None, first : first + BLOCK], np.float32)
            frame = av.AudioFrame.from_ndarray(block, format=kind, layout="mono")
            frame.sample_rate, frame.pts = SAMPLE_RATE, first
            frame.time_base = Fraction(1, SAMPLE_RATE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def decode(data: bytes, *, count: int) -> FloatArray:
    """`count` samples at 16 kHz; zeros where the file is shorter."""
    with av.open(io.BytesIO(data), "r") as file:
        ratio = (file.streams.audio[0].rate or SAMPLE_RATE) // SAMPLE_RATE
        blocks = [frame.to_ndarray()[0] for frame in file.decode(audio=0)]
    decoded = np.concatenate(blocks)
    if ratio > 1:  # Opus is decoded at 48 kHz
        decoded = resample_poly(decoded, 1, ratio)
    samples = np.zeros(count, np.float32)
    samples[: len(decoded)] = decoded[:count]
    return samples


def through(samples: FloatArray, codec: str, bit_rate: int) -> FloatArray:
    """What is left of `samples` after the codec."""
    return decode(encode(samples, codec, bit_rate), count=len(samples))
