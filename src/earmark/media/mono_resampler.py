"""Mixes decoded sound to one channel and resamples it, by libav's filters."""

from __future__ import annotations

from collections.abc import Iterator

import av.error
import numpy as np
from av.audio.frame import AudioFrame
from av.filter import Graph
from numpy.typing import NDArray

Samples = NDArray[np.float32]


class MonoResampler:
    """Sound of one format as it comes, mono at another rate; the same samples however it is cut.

    PyAV's own resampler starts a thread a core that none of these filters uses, which takes as long
    as resampling some seconds of sound.
    """

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._graph: Graph | None = None

    def resample(self, frame: AudioFrame | None) -> Iterator[Samples]:
        """What is ready after `frame`; None for what is held back until the end."""
        if self._graph is None:
            if frame is None:
                return
            self._graph = self._open(frame)
        self._graph.push(frame)
        while True:
            try:
                ready = self._graph.pull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return
            assert isinstance(ready, AudioFrame), "there is nothing but sound"
            yield ready.to_ndarray()[0]

    def _open(self, frame: AudioFrame) -> Graph:
        graph = Graph()
        graph.threads = 1
        steps = (
            graph.add(
                "abuffer",
                sample_rate=str(frame.sample_rate),
                sample_fmt=frame.format.name,
                channel_layout=frame.layout.name,
            ),
            graph.add(
                "aformat",
                sample_rates=str(self._sample_rate),
                sample_fmts="flt",
                channel_layouts="mono",
            ),
            graph.add("abuffersink"),
        )
        graph.link_nodes(*steps).configure()
        return graph
