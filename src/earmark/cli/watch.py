"""`earmark watch`: listen to live sources, and spend a rate of calls on them."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from earmark.cli import options
from earmark.cli.caption import run_folder
from earmark.media.live_input import LiveInput
from earmark.report.console import err
from earmark.settings import Settings

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE", help="Streams, files that still grow, devices, or one folder."
    ),
]


@options.takes_settings(
    "calls_per_hour", "burst", "calls_per_day", "latency", "part", "keep", "keep_clips", "alert",
    "model", "blur", "max_calls", "max_spend", "budget",
)  # fmt: skip
def watch(sources: Sources, settings: Settings, run: options.NewRunFolder = None) -> None:
    """Listen to live sources, and caption the moments most worth a call as they happen.

    Sources are rtsp(s)://, srt://, udp://, rtmp(s):// and http(s):// addresses,
    files that are still written (MKV, TS, fragmented MP4), and devices such as
    alsa:default or v4l2:/dev/video0. All share one rate of calls. Video stays
    compressed until a window is worth a call. A folder is watched for recordings
    that land in it: each is captioned once it is complete, by --budget.

    Every event is one line of JSON: source, listening, gap, pick, answer,
    dropped. The run is like any other: `earmark serve` shows it meanwhile.

    For example:

      earmark watch rtsp://camera/stream --calls-per-hour 60 --model http://localhost:8000/v1

      earmark watch /dock/uploads --budget auto --model gguf:Qwen3-VL-8B.gguf
    """
    folders = [Path(source) for source in sources if Path(source).is_dir()]
    if folders and len(sources) > 1:
        raise ValueError(f"{folders[0]} is a folder: watch it with a command of its own")
    for source in () if folders else sources:
        if LiveInput(source).is_file and not Path(source).is_file():
            raise ValueError(f"there is no file {source}; name a stream, a file or a folder")
    folder = run or run_folder(sources, settings)
    err.print(f"watching into {folder}; stop with Ctrl-C")
    key = options.api_key()
    with contextlib.suppress(KeyboardInterrupt):  # the usual end of a watch
        if folders:
            from earmark.pipeline.watch_folder import watch_folder

            watch_folder(folders[0], run=folder, settings=settings, api_key=key, emit=_print)
        else:
            from earmark.pipeline.watch import watch as watch_live

            watch_live(sources, run=folder, settings=settings, api_key=key, emit=_print)
    err.print(f"stopped; the run is in {folder}")


def _print(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
    sys.stdout.flush()
