"""What hearing one live stream costs: CPU beside ffmpeg's, bytes, frames decoded, latency.

python benchmarks/watch.py [--seconds 180] [--calls-per-hour 60]

ffmpeg sends a film (720p H.264 at 25 pictures a second, AAC at 48 kHz) by UDP on this machine. The
CPU time of `earmark watch` is divided by the time it listened, and by the CPU time in which ffmpeg
decodes the same sound. A server of this process answers each call at once.
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
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

FILM = [
    *("-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25"),
    *("-f", "lavfi", "-i", "anoisesrc=amplitude=0.02:sample_rate=48000"),
]
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


def watch(film: Path, folder: Path, options: argparse.Namespace, model: str) -> dict[str, float]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    send = ["-re", "-stream_loop", "-1", "-i", str(film), "-c", "copy", "-f", "mpegts"]
    rate = ["--calls-per-hour", str(options.calls_per_hour), "--model", model]
    words = [f"udp://127.0.0.1:{port}", "--run", str(folder / "run"), *rate]
    log = folder / "events.jsonl"
    with (
        log.open("w") as events,
        subprocess.Popen([*QUIET, *send, f"udp://127.0.0.1:{port}?pkt_size=1316"]) as sender,
        subprocess.Popen(
            [sys.executable, "-m", "earmark", "watch", *words], stdout=events
        ) as process,
    ):
        deadline = time.monotonic() + 120
        while '"listening"' not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(15)  # models are loaded
        before, began = cpu_of(process.pid), time.monotonic()
        time.sleep(options.seconds)
        used, lasted = cpu_of(process.pid) - before, time.monotonic() - began
        process.send_signal(signal.SIGTERM)
        process.wait(300)
        sender.kill()
    return {"cpu": used, "lasted": lasted, **read_events(log)}


def read_events(log: Path) -> dict[str, float]:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    latencies = [
        (datetime.fromisoformat(row["time"]) - datetime.fromisoformat(row["end"])).total_seconds()
        for row in rows
        if row["event"] == "answer"
    ]
    last = [row for row in rows if row["event"] == "listening"][-1]
    percentiles = np.percentile(latencies, [50, 95, 100]) if latencies else [np.nan] * 3
    return {
        "answers": len(latencies),
        "bytes": last["bytes"],
        "ring_bytes": last["ring_bytes"],
        "frames_decoded": last["frames_decoded"],
        **dict(zip(("p50", "p95", "most"), map(float, percentiles), strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--calls-per-hour", type=int, default=60)
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        folder, film = Path(scratch), Path(scratch, "film.ts")
        subprocess.run([*QUIET, *FILM, "-t", "60", *CODECS, str(film)], check=True)
        decoding = decode_sound(film) / 60.0
        model = f"http://127.0.0.1:{server.server_address[1]}/v1#tiny"
        found = watch(film, folder, options, model)
    share = found["cpu"] / found["lasted"]
    print(f"CPU of hearing one stream    {100 * share:.2f} % of a core")
    print(f"ffmpeg decodes its sound in  {100 * decoding:.2f} % of a core")
    print(f"ratio                        {share / decoding:.1f}")
    received, held = found["bytes"] / 1e6, found["ring_bytes"] / 1e6
    print(f"received {received:.1f} MB, of which the ring holds {held:.1f} MB")
    print(f"frames decoded {found['frames_decoded']:.0f}, for {found['answers']:.0f} answers")
    print(
        f"from the end of a window to its answer: median {found['p50']:.1f} s, "
        f"95 % {found['p95']:.1f} s, most {found['most']:.1f} s"
    )


if __name__ == "__main__":
    main()
