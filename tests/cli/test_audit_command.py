"""`earmark run audit`, from the words of the command to what it prints."""

from __future__ import annotations

import json

from acceptance.command_line import earmark
from fault_server import fault_server
from making import make_video

IDLE = json.dumps({"caption": "A bench.", "activity": "", "active": False})


def test_an_audit_is_foretold_asked_and_told(tmp_path):
    video, run = tmp_path / "shift.mp4", tmp_path / "run"
    make_video(video, duration=40.0, clicks=[9.0, 25.0], fps=5, group=20)
    with fault_server(then=f"ok:{IDLE}") as server:
        model = ("--model", f"{server.url}#scripted")
        words = ("--frontline", "flux", "--budget", "4", "--run", run, "--no-cache")
        asked = earmark("caption", video, *words, *model, "--no-sounds", "--no-pictures")
        assert asked.code == 0, asked.err
        foretold = earmark("run", "audit", run, "--dry-run").out
        for wrong in ("150", "100", "0", "nan"):
            refused = earmark("run", "audit", run, "--dry-run", "--confidence", wrong)
            assert refused.code != 0
            assert "confidence" in refused.err
        told = earmark("run", "audit", run, "--calls", "3", *model).out
        found = earmark("run", "audit", run, "--calls", "3", *model, "--format", "json").json
        assert server.count() == 4 + 3
    assert "points" in foretold
    rows = [line.split()[0] for line in foretold.splitlines() if "±" in line]
    assert rows == ["6"]  # no more calls than there are windows that nobody looked at
    assert "as much activity as the sound suggests" in foretold
    assert (
        "0 of 3 drawn windows active; estimate for the 6 windows that no answered pick touches"
        in told
    )
    assert "activities not seen: about 0" in told
    assert (found["windows"], found["answered"], found["share"]["low"]) == (6, 3, 0.0)


def test_without_a_model_there_is_nobody_to_ask(tmp_path):
    outcome = earmark("run", "audit", tmp_path)
    assert outcome.code != 0
    assert "an audit needs a model" in outcome.err
