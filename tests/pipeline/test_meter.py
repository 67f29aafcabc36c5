"""Every request that a server sees is counted in the run, whoever makes it and however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import MagicMock

import pytest

import earmark
from earmark.captioning.dispatch import dispatch
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import CallError, CallRejected, EarmarkError
from earmark.pipeline.audit import audit
from earmark.pipeline.resume import ask_window
from earmark.pipeline.session import Session, open_session
from earmark.run.run import Run
from earmark.settings import Limits
from fault_server import FaultServer, fault_server
from live_servers import ffmpeg
from making import make_video
from stills import ask_about

SAYS = json.dumps(
    {"caption": "A hand stirs.", "activity": "stir", "active": True, "seen": True, "what": "stirs"}
    | {"sentences": [], "unknown": "all of it"}
)
BEHAVIOURS = (
    *("429:0", "500", "503", "cut", "drop", "malformed", "html", "empty", "nousage", "length"),
    *("newer", f"free:{SAYS}", "misshapen", "401", "json:[]", "usage:null", 'usage:{"a": 1}'),
)
"""None of them refuses the connection: the server sees each request."""


def counted(run: Path) -> int:
    with Run(run) as opened:
        return opened.spent().calls_before


def script(seed: int) -> list[str]:
    rng = Random(seed)
    return [rng.choice((f"ok:{SAYS}", *BEHAVIOURS)) for _ in range(40)]


def session(server: FaultServer, **choices: Any) -> Session:
    return open_session(
        frontline="flux",
        model=f"{server.url}#scripted",
        sounds=False,
        pictures=False,
        cache=None,
        retries=2,
        concurrency=3,
        **choices,
    )


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [
        make_video(folder / f"{number}.mp4", duration=24.0, clicks=[5.0, 13.0], fps=5)
        for number in range(2)
    ]


def by_caption(run: Path, videos: list[Path], plan: Session) -> None:
    earmark.caption(videos[:1], run=run, settings=plan, budget="5")


def by_workers(run: Path, videos: list[Path], plan: Session) -> None:
    earmark.caption(videos, run=run, settings=plan, budget="3", workers=2)


def by_ray(run: Path, videos: list[Path], plan: Session) -> None:
    pytest.importorskip("ray", reason="earmark[ray] is not installed")
    earmark.caption(videos, run=run, settings=plan, budget="3", engine="ray", workers=1)


def by_find(run: Path, videos: list[Path], plan: Session) -> None:
    earmark.find("somebody stirs", videos[:1], run=run, settings=plan, calls=5)


def by_ask(run: Path, _: list[Path], plan: Session) -> None:
    earmark.ask(run, "who stirs?", settings=plan)


def by_audit(run: Path, _: list[Path], plan: Session) -> None:
    audit(run, calls=2, settings=plan)


def by_window(run: Path, _: list[Path], plan: Session) -> None:
    with Run(run) as opened:
        (row,) = opened.recordings()
        picked = {pick.span.start for pick in opened.picks(row.id)}
    free = next(time for time in range(0, 24, 2) if time not in picked)
    ask_window(run, row.id, free, plan, plan.open_captioner(), reason="by hand")


TOOLS: list[Callable[[Path, list[Path], Session], None]] = [
    by_caption,
    by_workers,
    by_find,
    by_ask,
    by_audit,
    by_window,
    pytest.param(by_ray, marks=pytest.mark.slow),  # type: ignore[list-item]
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tool", TOOLS)
def test_what_the_server_sees_is_what_the_run_counts(
    tool: Callable[..., None], seed: int, videos: list[Path], tmp_path: Path
):
    run = tmp_path / "run"
    if tool in (by_ask, by_audit, by_window):
        with fault_server(then=f"ok:{SAYS}") as server:
            by_caption(run, videos, session(server, window=2.0))
            before = server.count()
    else:
        before = 0
    with fault_server(*script(seed), then=f"ok:{SAYS}") as server:
        for _ in range(2):
            with suppress(CallError):  # every call may fail
                tool(run, videos, session(server, window=2.0))
        assert server.count() > 0
        assert counted(run) == before + server.count()


def test_what_watch_asks_is_counted_too(tmp_path: Path):
    film = tmp_path / "film.ts"
    words = [sys.executable, "-m", "earmark", "watch", str(film), "--run", str(tmp_path)]
    words += ["--latency", "4s", "--calls-per-hour", "900", "--cache", "none"]
    filming = ffmpeg("-f", "mpegts", str(film), seconds=12.0)
    faults = ("cut", "newer", "429:0", "malformed")
    with filming, fault_server(*faults, then=f"ok:{SAYS}") as server:
        while not film.exists() or film.stat().st_size < 50_000:
            time.sleep(0.1)
        done = subprocess.run([*words, "--model", f"{server.url}#scripted"], check=False)
        assert done.returncode in (0, 1)
        assert counted(tmp_path) == server.count() > 0


@pytest.mark.parametrize("seed", range(2))
def test_no_kill_leaves_a_request_uncounted(seed: int, videos: list[Path], tmp_path: Path):
    """What was begun and not sent may be counted as well: at most what is in flight at a kill."""
    rng, run = Random(seed), tmp_path / "run"
    words = [sys.executable, "-m", "earmark", "caption", str(videos[0]), "--run", str(run)]
    words += ["--frontline", "flux", "--no-sounds", "--no-pictures", "--cache", "none"]
    words += ["--budget", "5", "--concurrency", "3", "--retries", "2"]
    with fault_server(*script(seed), then="slow:0.2") as server:
        for _ in range(4):
            upto = server.count() + rng.randint(1, 3)
            child = subprocess.Popen([*words, "--model", f"{server.url}#scripted"])
            while server.count() < upto and child.poll() is None:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
            child.wait()
            with Run.resume(run) as opened:
                assert opened.totals().interrupted <= 3 * 4
                surplus = opened.spent().calls_before - server.count()
            assert 0 <= surplus <= 3 * 4


def test_a_question_to_a_run_keeps_to_its_caps(videos: list[Path], tmp_path: Path):
    run, prices = tmp_path / "run", {"input_price": 1e6, "output_price": 1e6}
    usage = '{"prompt_tokens": 4, "completion_tokens": 1}'
    with fault_server(f"ok:{SAYS}", f"usage:{usage}") as server:
        earmark.caption(videos[:1], run=run, settings=session(server), budget="1")
        plan = session(server, max_calls=2, **prices)
        with pytest.raises(EarmarkError, match="not the JSON"):
            earmark.ask(run, "who stirs?", settings=plan)
        with Run(run) as opened:
            assert opened.spent().spend_before == 5, "what the server counted, not the most"
        with pytest.raises(CallRejected, match="the cap on calls, 2, is reached"):
            earmark.ask(run, "who stirs?", settings=plan)
        with pytest.raises(CallRejected, match=r"the cap of 20.00 .* is reached: 5.00 is spent"):
            earmark.ask(run, "who stirs?", settings=session(server, max_spend=20, **prices))
        assert server.count() == 2


def test_calls_are_made_one_by_one_until_a_server_has_counted():
    """It counts far more than is estimated, and the first two calls are refused."""
    log = MagicMock()
    usage = 'usage:{"prompt_tokens": 4900, "completion_tokens": 500}'
    limits = Limits(concurrency=8, retries=0, max_spend=5000, input_price=1e6, output_price=1e6)
    requests = (ask_about((4.0 * n,), model="scripted", answer_tokens=1) for n in range(20))
    with fault_server("401", "401", then=usage) as server:
        tally = dispatch(requests, OpenAICaptioner(server.url, "scripted"), limits, log)
        assert (server.count(), tally.spend) == (3, 5400)
