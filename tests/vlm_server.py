"""llama.cpp's own server in a process of its own, with a very small random Qwen3-VL.

    with vlm_server(folder) as url:         # http://127.0.0.1:PORT/v1, model "tiny"
    with vlm_server(folder, pictures=False) as url:     # the same without its picture encoder

Ready in a fraction of a second; stopped at the end of the block, or when its parent dies.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiny_vlm import write_gguf

MODEL = "tiny"


@contextmanager
def vlm_server(folder: Path, *, pictures: bool = True) -> Iterator[str]:
    """The address of a server whose weights are made in `folder` unless they are there."""
    model, encoder = folder / "tiny.gguf", folder / "tiny-mmproj.gguf"
    if not encoder.exists():
        write_gguf(folder)
    command = [sys.executable, str(Path(__file__).resolve()), str(model)]
    command += ["--mmproj", str(encoder)] if pictures else []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    """Serve until the parent closes our standard input."""
    import xllamacpp

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--mmproj")
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    if options.mmproj:
        params.mmproj.path = options.mmproj
    params.model_alias = {MODEL}
    params.n_ctx = 8192
    params.n_parallel = 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = -1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
