"""Writes the attribution of recorded sounds into NOTICE: authors, titles and numbers of clips.

    python scripts/attribution.py DATA/open_sounds/sounds.csv [NOTICE]

Lists the clips that the open gate was trained and calibrated on; the part `test` is not among them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from earmark.media.atomic_file import write_whole
from earmark_lab.sites.library import Clip, read_clips

HEADING = "Sounds under CC BY 3.0 that the open gate learnt from, by author"
INTRODUCTION = (
    "The gate carries no sound of theirs. They were cut, mixed and filtered "
    "(src/earmark_lab/sites). https://creativecommons.org/licenses/by/3.0/"
)
USED = ("train", "dev")


def main() -> None:
    """Replace the list at the end of NOTICE."""
    table = Path(sys.argv[1])
    notice = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parents[1] / "NOTICE")
    text = notice.read_text(encoding="utf-8").split(HEADING)[0].rstrip()
    write_whole(notice, f"{text}\n\n{attribution(read_clips(table))}")


def attribution(clips: list[Clip]) -> str:
    """One line for each sound, with its number on Freesound; sorted by author."""
    authors: dict[str, dict[str, str]] = defaultdict(dict)
    for clip in clips:
        if clip.licence != "CC0" and clip.part in USED:
            authors[clip.author][clip.source.rstrip("/")] = clip.title
    lines = [HEADING, "", INTRODUCTION, ""]
    for author in sorted(authors, key=str.lower):
        lines.append(f"{author} (https://freesound.org/people/{author}/)")
        lines += [
            f"  {title} ({source.rsplit('/', 1)[-1]})" for source, title in authors[author].items()
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
