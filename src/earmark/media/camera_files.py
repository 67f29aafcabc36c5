"""What action cameras call their files: which are chapters of one recording, which are copies.

    GX010042.MP4  GX020042.MP4      chapters 1 and 2 of recording 42
    GL010042.LRV  GL020042.LRV      small copies of them, for a telephone
    GX010042.THM                    a still, for a list

Only names are read. A camera whose names do not tell (DJI's) has a recording a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# GoPro HERO6 and later: GX010042 is chapter 1 of recording 42 (GH, GX by codec, GL a small copy).
_GOPRO = re.compile(r"^(?P<camera>G[HXL])(?P<chapter>\d{2})(?P<number>\d{4})$", re.IGNORECASE)
# GoPro HERO5 and earlier: GOPR0042 is the first chapter, GP010042 the second.
_OLD_GOPRO = re.compile(r"^(?:GOPR|GP(?P<chapter>\d{2}))(?P<number>\d{4})$", re.IGNORECASE)
# Insta360: kind, day, time, lens and number; LRV_ is a small copy of both lenses.
_INSTA360 = re.compile(
    r"^(?:VID|LRV)_(?P<time>\d{8}_\d{6})_\d{2}_(?P<number>\d{3})$", re.IGNORECASE
)

_COPY_SUFFIXES = ("lrv", "lrf", "thm")
"""Endings of small copies (GoPro, Insta360; DJI) and of stills."""
_COPY = re.compile(r"^(?:GL\d{6}|LRV_\d{8}_.*)$", re.IGNORECASE)


def chapter_of(uri: str) -> tuple[tuple[str, ...], int]:
    """The recording a file belongs to, as a key to group by, and its place in it.

    >>> chapter_of("card/GX020042.MP4")
    (('card', 'GX', '0042', 'MP4'), 2)
    """
    folder, stem, suffix = _split(uri)
    if match := _GOPRO.match(stem):
        camera = match["camera"].upper()
        return (folder, camera, match["number"], suffix.upper()), int(match["chapter"])
    if match := _OLD_GOPRO.match(stem):
        return (folder, "GOPR", match["number"], suffix.upper()), int(match["chapter"] or 0)
    return (uri,), 0


def split_copies(uris: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files in their order, and apart from them those that are small copies of others here.

    A copy whose full file is not here stays: it may be all that is left of a recording.

    >>> split_copies(["GX010042.MP4", "GL010042.LRV", "GL010043.LRV"])
    (['GX010042.MP4', 'GL010043.LRV'], ['GL010042.LRV'])
    """
    files = list(uris)
    full = {_recording_of(uri) for uri in files if not _is_copy(uri)}
    copies = [uri for uri in files if _is_copy(uri) and _recording_of(uri) in full]
    left_out = set(copies)
    return [uri for uri in files if uri not in left_out], copies


def _is_copy(uri: str) -> bool:
    """Whether the name is one that cameras give to small copies and stills."""
    _, stem, suffix = _split(uri)
    return suffix.lower() in _COPY_SUFFIXES or bool(_COPY.match(stem))


def _recording_of(uri: str) -> tuple[str, ...]:
    """What a file and its copies have in common."""
    folder, stem, _ = _split(uri)
    if match := _GOPRO.match(stem):
        return folder, match["chapter"], match["number"]
    if match := _INSTA360.match(stem):
        return folder, match["time"], match["number"]
    return folder, stem.upper()


def _split(uri: str) -> tuple[str, str, str]:
    """Folder, name and ending."""
    folder, _, name = uri.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    return folder, stem, suffix
