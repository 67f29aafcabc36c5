"""Fuzzes one target with coverage as the guide.

    python tests/fuzz/run.py boxes 600 found/      # 600 s; new inputs and crashes are put in found/

Needs `pip install 'earmark[fuzz]'`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["earmark.media", "media_targets"]):
    from media_targets import CORPUS, TARGETS


def main(target: str, seconds: str, found: str) -> None:
    """Fuzz `target`; the process ends with an error where an input raises."""
    Path(found).mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", "-max_len=20000", "-rss_limit_mb=2048", "-timeout=30"]
    words = [sys.argv[0], *options, f"-artifact_prefix={found}/{target}-", found, str(CORPUS)]
    atheris.Setup(words, TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
