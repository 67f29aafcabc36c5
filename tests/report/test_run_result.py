"""What `earmark.caption` returns."""

from __future__ import annotations

import json

import pytest

import earmark
from earmark.gate.forecast_error import as_range
from making import make_video


def test_a_result_gives_its_counts_and_its_picks_as_a_data_frame(tmp_path):
    pytest.importorskip("pandas")
    video = tmp_path / "shift.mp4"
    make_video(video, duration=24.0, clicks=[5.0, 13.0])
    (tmp_path / "broken.mp4").write_bytes(b"<b>no media</b>")
    picks = earmark.select([video], budget="2", frontline="flux").recordings[0].picks
    recording = earmark.open_recording(video).key
    said = ["someone <script>cuts</script> bread", "someone rinses a cup"]
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "".join(
            json.dumps({"recording": recording, "start": p.start, "end": p.end, "text": text})
            + "\n"
            for p, text in zip(picks, said, strict=True)
        )
    )
    done = earmark.caption(
        [tmp_path / "*.mp4"],
        run=tmp_path / "run",
        budget="2",
        frontline="flux",
        model=f"replay:{answers}",
        pictures=False,
    )
    assert repr(done) == (
        f"CaptionResult(run='{tmp_path / 'run'}', answered=2, picks=2, windows=6, failed=0, "
        "missed=1, expected coverage 66.4 % (its uncertainty was not measured))"
    )
    frame = done.to_pandas()
    assert list(frame["caption"]) == said
    assert list(frame["start"]) == [pick.start for pick in picks]


def test_the_forecast_that_select_tells_is_the_one_a_run_keeps_and_shows(tmp_path):
    """The same share and the same range: in the run, in the result and on the page."""
    video = make_video(tmp_path / "shift.mp4", duration=24.0, clicks=[5.0, 13.0])
    (chosen,) = earmark.select([video], budget="2").recordings
    assert chosen.forecast_range is not None
    done = earmark.caption([video], run=tmp_path / "run", budget="2", pictures=False)
    with done.open() as run:
        (row,) = run.recordings()
        choice = run.choice(row.id)
    told = chosen.forecast, chosen.forecast_range
    assert (choice.forecast, choice.forecast_range) == done.coverage == told
    words = as_range(*told)
    assert f"expected coverage {words}" in repr(done)
    page = done.page.read_text(encoding="utf-8")
    assert page.count(json.dumps(words, ensure_ascii=False)) == 2  # of the run, and the recording
