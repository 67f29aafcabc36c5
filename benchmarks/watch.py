"""What watching live streams costs: CPU beside ffmpeg's, bytes, frames decoded, latency.

python benchmarks/watch.py [--streams 1] [--seconds 180] [--calls-per-hour 60]

ffmpeg sends a film (720p H.264 at 25 pictures a second, AAC at 48 kHz) by UDP on this machine, once
for each stream. The CPU time of `earmark watch` is divided by the time it listened, and by the CPU
time in which ffmpeg decodes the same sound. A smoke detector in the film alerts every two minutes.
A server of this process answers each call at once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

FILM = [
    *("-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25"),
    *("-f", "lavfi", "-i", "anoisesrc=amplitude=0.005:sample_rate=48000"),
    *(
        "-f",
        "lavfi",
        "-i",
        "aevalsrc=0.5*sin(2*PI*3100*t)*lt(mod(t\\,1)\\,0.5)*between(t\\,40\\,50):s=48000",
    ),
    *("-filter_complex", "[1][2]amix=normalize=0[sound]", "-map", "0:v", "-map", "[sound]"),
]
SECONDS = 120
"""Of the film."""
ALERT = "smoke detector"
CODECS = [
    *("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-b:v", "4M"),
    *("-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "128k"),
]
QUIET = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-y"]


class Answering(BaseHTTPRequestHandler):
    """The smallest server with the OpenAI chat API."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {
            "message": {"role": "assistant", "content": "A pattern."},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": 100, "completion_tokens": 3}
        self._send({"model": "tiny", "choices": [choice], "usage": usage})

    def do_GET(self) -> None:
        self._send({"data": [{"id": "tiny"}]})

    def _send(self, reply: dict[str, object]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def decode_sound(film: Path) -> float:
    """CPU seconds in which ffmpeg decodes the sound of the film to 16 kHz mono."""
    before = cpu_of_children()
    command = [*QUIET, "-i", str(film), "-vn", "-ac", "1", "-ar", "16000", "-f", "null", "-"]
    subprocess.run(command, check=True)
    return cpu_of_children() - before


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def watch(film: Path, folder: Path, options: argparse.Namespace, model: str) -> dict[str, float]:
    addresses = [f"udp://127.0.0.1:{free_port()}" for _ in range(options.streams)]
    send = ["-re", "-stream_loop", "-1", "-i", str(film), "-c", "copy", "-f", "mpegts"]
    rate = ["--calls-per-hour", str(options.calls_per_hour), "--model", model, "--alert", ALERT]
    log = folder / "events.jsonl"
    command = [sys.executable, "-m", "earmark", "watch", *addresses, "--run", str(folder / "run")]
    with ExitStack() as stack:
        events = stack.enter_context(log.open("w"))
        senders = [
            stack.enter_context(subprocess.Popen([*QUIET, *send, f"{address}?pkt_size=1316"]))
            for address in addresses
        ]
        process = stack.enter_context(subprocess.Popen([*command, *rate], stdout=events))
        deadline = time.monotonic() + 120
        while log.read_text().count('"state": "listening"') < options.streams:
            if time.monotonic() > deadline:
                sys.exit("the streams are not heard")
            time.sleep(0.5)
        time.sleep(15)  # models are loaded
        before, began = cpu_of(process.pid), time.monotonic()
        time.sleep(options.seconds)
        used, lasted = cpu_of(process.pid) - before, time.monotonic() - began
        memory = resident_of(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(300)
        for sender in senders:
            sender.kill()
    return {"cpu": used / options.streams, "lasted": lasted, "memory": memory, **read_events(log)}


def resident_of(process: int) -> float:
    """MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def seconds_from(rows: list[dict[str, str]], name: str) -> np.ndarray:
    """From the moment in the field `name` to the event."""
    return np.array(
        [
            (
                datetime.fromisoformat(row["time"]) - datetime.fromisoformat(row[name])
            ).total_seconds()
            for row in rows
        ]
    )


def read_events(log: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    by_kind: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_kind[row["event"]].append(row)
    last = {row["source"]: row for row in by_kind["listening"]}
    return {
        "answers": len(by_kind["answer"]),
        "gaps": len(by_kind["gap"]),
        "bytes": sum(row["bytes"] for row in last.values()),
        "ring_bytes": sum(row["ring_bytes"] for row in last.values()),
        "frames_decoded": max(row["frames_decoded"] for row in last.values()),
        "to_answer": seconds_from(by_kind["answer"], "end"),
        "to_alert": seconds_from(by_kind["alert"], "start"),
    }


def percentiles(seconds: np.ndarray) -> str:
    if not len(seconds):
        return "none"
    median, most_of, longest = np.percentile(seconds, [50, 95, 100])
    return f"median {median:.1f} s, 95 % {most_of:.1f} s, most {longest:.1f} s (n = {len(seconds)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--calls-per-hour", type=int, default=60)
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        folder, film = Path(scratch), Path(scratch, "film.ts")
        subprocess.run([*QUIET, *FILM, "-t", str(SECONDS), *CODECS, str(film)], check=True)
        decoding = decode_sound(film) / SECONDS
        model = f"http://127.0.0.1:{server.server_address[1]}/v1#tiny"
        found = watch(film, folder, options, model)
    share = found["cpu"] / found["lasted"]
    print(f"streams {options.streams}, {found['lasted']:.0f} s, {found['gaps']} gaps")
    print(f"CPU of hearing one stream    {100 * share:.2f} % of a core")
    print(f"ffmpeg decodes its sound in  {100 * decoding:.2f} % of a core")
    print(f"ratio                        {share / decoding:.1f}")
    received, held = found["bytes"] / 1e6, found["ring_bytes"] / 1e6
    print(f"received {received:.1f} MB, of which the rings hold {held:.1f} MB")
    print(f"memory of the process {found['memory']:.0f} MB")
    print(f"frames decoded {found['frames_decoded']:.0f}, for {found['answers']:.0f} answers")
    print(f"from a sound to its alert: {percentiles(found['to_alert'])}")
    print(f"from the end of a window to its answer: {percentiles(found['to_answer'])}")


if __name__ == "__main__":
    main()
