"""Fuzzes one target with coverage as the guide.

    python tests/fuzz/run.py boxes 600 found/      # 600 s; new inputs and crashes are put in found/

The targets are those of `media_targets.py` and `text_targets.py`. Needs `pip install
'earmark[fuzz]'`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["earmark.media", "earmark.captioning", "earmark_lab.annotations"]
):
    import media_targets
    import text_targets


def main(target: str, seconds: str, found: str) -> None:
    """Fuzz `target`; the process ends with an error where an input raises."""
    Path(found).mkdir(parents=True, exist_ok=True)
    targets = media_targets if target in media_targets.TARGETS else text_targets
    options = [f"-max_total_time={seconds}", "-max_len=20000", "-rss_limit_mb=2048", "-timeout=30"]
    words = [sys.argv[0], *options, f"-artifact_prefix={found}/{target}-"]
    atheris.Setup([*words, found, str(targets.CORPUS)], targets.TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
