"""`earmark audit`, from the words of the command to what it prints."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from earmark.cli.app import app
from fault_server import fault_server
from making import make_video

IDLE = json.dumps({"caption": "A bench.", "activity": "", "active": False})


def test_an_audit_is_foretold_asked_and_told(tmp_path):
    video, run = tmp_path / "shift.mp4", tmp_path / "run"
    make_video(video, duration=40.0, clicks=[9.0, 25.0], fps=5, group=20)
    with fault_server(then=f"ok:{IDLE}") as server:
        model = ["--model", f"{server.url}#scripted"]
        words = ["caption", str(video), "--frontline", "flux", "--budget", "4", "--run", str(run)]
        assert (
            CliRunner()
            .invoke(app, [*words, *model, "--no-cache", "--no-sounds", "--no-pictures"])
            .exit_code
            == 0
        )
        foretold = CliRunner().invoke(app, ["run", "audit", str(run), "--dry-run"])
        for wrong in ("150", "100", "0", "nan"):
            refused = CliRunner().invoke(
                app, ["run", "audit", str(run), "--dry-run", "--confidence", wrong]
            )
            assert refused.exit_code != 0
            assert "confidence" in refused.output + str(refused.exception)
        told = CliRunner().invoke(app, ["run", "audit", str(run), "--calls", "3", *model])
        plain = CliRunner().invoke(
            app, ["run", "audit", str(run), "--calls", "3", *model, "--format", "json"]
        )
        assert server.count() == 4 + 3
    assert "points" in foretold.output
    rows = [line.split()[0] for line in foretold.output.splitlines() if "±" in line]
    assert rows == ["6"]  # no more calls than there are windows that nobody looked at
    assert "as much activity as the sound suggests" in foretold.output
    assert (
        "0 of 3 drawn windows active; estimate for the 6 windows that no answered pick touches"
        in told.output
    )
    assert "activities not seen: about 0" in told.output
    found = json.loads(plain.stdout)
    assert (found["windows"], found["answered"], found["share"]["low"]) == (6, 3, 0.0)


def test_without_a_model_there_is_nobody_to_ask(tmp_path):
    result = CliRunner().invoke(app, ["run", "audit", str(tmp_path)])
    assert result.exit_code != 0
    assert "asks a model" in str(result.exception) + result.output
