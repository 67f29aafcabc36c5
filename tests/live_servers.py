"""Live sources for the tests, each in a process of its own that ends with the test."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

SYSTEM_PYTHON = "/usr/bin/python3"
CAMERA = Path(__file__).with_name("rtsp_camera.py")
PICTURE = "testsrc2=size=320x240:rate=15"
SOUND = "aevalsrc=0.002*random(0)+0.6*sin(2765*t)*lt(mod(t\\,2)\\,0.3):sample_rate=48000"
"""Faint noise, and a knock every two seconds: something to pick."""
CODECS = "-c:v libx264 -preset ultrafast -g 15 -pix_fmt yuv420p -c:a aac"


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@cache
def _has_gstreamer() -> bool:
    words = (
        "import gi; gi.require_version('GstRtspServer', '1.0'); "
        "from gi.repository import Gst, GstRtspServer; Gst.init(None); "
        "assert all(map(Gst.ElementFactory.find, ('x264enc', 'avenc_aac', 'rtph264pay')))"
    )
    if not Path(SYSTEM_PYTHON).exists():
        return False
    tried = subprocess.run([SYSTEM_PYTHON, "-c", words], capture_output=True, check=False)
    return tried.returncode == 0


@contextmanager
def rtsp_camera(port: int, *, size: str = "320x240", rate: int = 16_000) -> Iterator[str]:
    """Its address; `with` ends it as pulling the plug does."""
    if not _has_gstreamer():
        pytest.skip("needs gir1.2-gst-rtsp-server-1.0 and python3-gi")
    command = [SYSTEM_PYTHON, str(CAMERA), str(port), size, str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "ready\n"
            yield f"rtsp://127.0.0.1:{port}/camera"
        finally:
            process.kill()


@contextmanager
def ffmpeg(*output: str, seconds: float = 600.0, codecs: str = CODECS) -> Iterator[None]:
    """Films without end in real time, and writes or sends it to `output`."""
    if not (command := shutil.which("ffmpeg")):
        pytest.skip("needs ffmpeg")
    quiet = [command, "-hide_banner", "-loglevel", "error", "-nostdin", "-y"]
    film = ["-re", "-f", "lavfi", "-i", PICTURE, "-f", "lavfi", "-i", SOUND, "-t", str(seconds)]
    with subprocess.Popen([*quiet, *film, *codecs.split(), *output]) as process:
        try:
            yield
        finally:
            process.kill()
