"""Films whose colour says what happens, and a model server that reads the colour back.

    film(folder / "bench.mp4", 40, {"drill": [(6, 9)], "water": [(22, 26)]})
    with colour_model() as model:    # model.address is URL#NAME, model.requests what it got

Red pictures with loud noise are drilling, blue ones with softer noise are washing; the rest is grey
and quiet. The server decodes the picture it is sent, so a caption is right only if the frame is.
"""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import numpy as np

RATE = 16_000
FPS = 5
COLOURS = {"drill": (200, 30, 30), "water": (30, 30, 200), "": (120, 120, 120)}
LEVELS = {"drill": 0.3, "water": 0.15}
CAPTIONS = {
    "drill": "A person drills a hole into a red board",
    "water": "A person washes a blue cup under the tap",
    "": "An empty grey bench",
}
MODEL = "colour"

Actions = Mapping[str, Sequence[tuple[float, float]]]


def film(path: Path, duration: float, actions: Actions) -> Path:
    """An MP4 of `duration` seconds with these actions, each a list of (start, end)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(7)
    times = np.arange(int(duration * RATE)) / RATE
    sound = noise.normal(0, 0.002, len(times))
    for name, spans in actions.items():
        for start, end in spans:
            loud = (start <= times) & (times < end)
            sound[loud] += noise.normal(0, LEVELS[name], int(loud.sum()))
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=FPS, options={"g": str(FPS), "crf": "30"})
        video.width, video.height, video.pix_fmt = 96, 64, "yuv420p"
        audio = container.add_stream("aac", rate=RATE)
        audio.layout = "mono"
        for number in range(int(duration * FPS)):
            picture = np.full((64, 96, 3), COLOURS[action_at(actions, number / FPS)], np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        block = av.AudioFrame.from_ndarray(
            sound.astype(np.float32)[None], format="fltp", layout="mono"
        )
        block.sample_rate, block.pts = RATE, 0
        container.mux(audio.encode(block))
        container.mux(audio.encode(None))
    return path


def action_at(actions: Actions, time: float) -> str:
    """The name of what happens at `time`; empty if nothing does."""
    for name, spans in actions.items():
        if any(start <= time < end for start, end in spans):
            return name
    return ""


@dataclass
class ColourModel:
    """A running server."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the chat requests so far."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set; it is set at first."""

    @property
    def address(self) -> str:
        return f"{self.url}#{MODEL}"


@contextmanager
def colour_model() -> Iterator[ColourModel]:
    """A server that speaks the OpenAI chat API, in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.requests.append(body)
            model.gate.wait(60)
            message = {"role": "assistant", "content": answer(body)}
            self.reply(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "model": MODEL,
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
                }
            )

        def reply(self, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model = ColourModel(f"http://127.0.0.1:{server.server_address[1]}/v1")
    model.gate.set()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.gate.set()
        server.shutdown()
        server.server_close()


def answer(body: Mapping[str, Any]) -> str:
    """What the model says: a caption, a yes or no, or an answer that quotes the entries."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    fields = schema.get("properties", {})
    if "sentences" in fields:
        return json.dumps(quoted_answer(body["messages"][-1]["content"]))
    action = action_shown(body)
    if "seen" in fields:
        seen = bool(action) and action in json.dumps(body["messages"])
        return json.dumps({"seen": seen, "what": CAPTIONS[action] if seen else ""})
    if not fields:
        return CAPTIONS[action]
    values = {"string": CAPTIONS[action], "boolean": bool(action), "number": 1.0, "array": []}
    return json.dumps(
        {name: values.get(str(kind.get("type")), "") for name, kind in fields.items()}
    )


def quoted_answer(content: str) -> dict[str, Any]:
    """One sentence that quotes the first entry, and one whose quote is not in it."""
    first = json.loads(content)["entries"][0]
    invented = {
        "text": f"A dragon flew by: {first['text']}.",
        "sources": [{"entry": first["entry"], "quote": "a dragon"}],
    }
    real = {
        "text": f"The recording shows: {first['text']}.",
        "sources": [{"entry": first["entry"], "quote": first["text"]}],
    }
    return {"sentences": [real, invented], "unknown": "who it was"}


def action_shown(body: Mapping[str, Any]) -> str:
    """The action whose colour the last picture of a request has."""
    pictures = re.findall(r"data:image/\w+;base64,([A-Za-z0-9+/=]+)", json.dumps(body["messages"]))
    if not pictures:
        return ""
    with av.open(io.BytesIO(base64.b64decode(pictures[-1]))) as container:
        picture = next(container.decode(video=0)).to_ndarray(format="rgb24")
    mean = picture.astype(float).reshape(-1, 3).mean(0)
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))


def python_model(address: str) -> dict[str, str]:
    """The arguments by which the library's verbs are given the model at URL#NAME."""
    return {"model": address}
