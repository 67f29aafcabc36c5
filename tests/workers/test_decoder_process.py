"""A window that hangs or kills its decoder costs itself; the others are decoded."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import closing
from functools import partial

import pytest

from earmark import open_recording
from earmark.errors import ModelMissing
from earmark.media.prefetch import FrameRequest, HeldRecordingDecoder, prefetch
from earmark.workers.worker_pool import DecoderProcess
from making import make_video
from scale_work import count_frames, crashes, lacks_model, never_ends, stumbles

TIMES = (0.2, 1.4)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    paths = [make_video(folder / f"{name}.mp4", duration=2) for name in ("one", "two")]
    return [open_recording(path) for path in paths]


@pytest.fixture
def decoder():
    with closing(DecoderProcess()) as decoder:
        yield decoder
    assert not multiprocessing.active_children()


def test_it_decodes_what_this_process_would(recordings, decoder):
    request = FrameRequest(recordings[0], TIMES)
    with closing(HeldRecordingDecoder()) as here:
        ours, theirs = here(request), decoder(request)
    assert [frame.time for frame in theirs.frames] == [frame.time for frame in ours.frames]
    assert all((a.rgb == b.rgb).all() for a, b in zip(ours.frames, theirs.frames, strict=True))
    assert theirs.frames_decoded == ours.frames_decoded
    assert theirs.bytes_read >= ours.bytes_read > 0  # it sniffs at the file once more


def test_one_process_does_all_and_the_frames_themselves_stay_there(recordings, decoder):
    found = [
        decoder(FrameRequest(one, TIMES, count_frames)) for one in [*recordings, recordings[0]]
    ]
    assert [one.output[0] for one in found] == [2, 2, 2]
    assert len({one.output[1] for one in found}) == 1
    assert found[0].output[1] != os.getpid()
    assert [one.frames for one in found] == [[], [], []]


def test_a_window_that_hangs_is_ended_and_its_recording_not_tried_again(recordings):
    hung, sound = recordings
    wanted = [
        FrameRequest(hung, TIMES, never_ends),
        FrameRequest(sound, TIMES, count_frames),
        FrameRequest(hung, TIMES, count_frames),
    ]
    with closing(DecoderProcess(deadline=3.0)) as decoder:
        first, second, third = map(decoder, wanted)
    assert first.failure == f"{hung.name}: it was not finished after 3 s"
    assert second.output[0] == 2
    assert third.failure == first.failure


def test_a_window_that_kills_its_process_fails_alone(recordings, decoder):
    lost = decoder(FrameRequest(recordings[0], TIMES, crashes))
    assert lost.failure.startswith(f"{recordings[0].name}: 3 workers in a row were lost on it")
    assert decoder(FrameRequest(recordings[1], TIMES, count_frames)).output[0] == 2


@pytest.mark.parametrize("opener", [HeldRecordingDecoder, DecoderProcess])
def test_a_bug_is_the_failure_of_one_window(recordings, opener):
    with closing(opener()) as decoder:
        found = decoder(FrameRequest(recordings[0], TIMES, stumbles))
        assert "one.mp4: a bug in earmark (RecursionError: too deep)" in found.failure
        assert decoder(FrameRequest(recordings[0], TIMES, count_frames)).output[0] == 2


@pytest.mark.parametrize("opener", [HeldRecordingDecoder, DecoderProcess])
def test_what_no_window_can_do_without_ends_the_run(recordings, opener):
    with closing(opener()) as decoder, pytest.raises(ModelMissing, match="centerface"):
        decoder(FrameRequest(recordings[0], TIMES, lacks_model))


def test_windows_decoded_ahead_come_in_order(recordings):
    wanted = [FrameRequest(recordings[n % 2], (0.1 * n,), count_frames) for n in range(8)]
    wanted[3] = FrameRequest(recordings[1], TIMES, crashes)
    found = list(prefetch(wanted, partial(DecoderProcess)))
    assert len(found) == 8
    assert found[3].failure
    assert [one.output[0] for one in found[::2]] == [1, 1, 1, 1]  # of the other recording
