"""Sizes, counts, lengths of time and notes as text for people."""

from __future__ import annotations

from collections.abc import Iterable


def format_bytes(size_bytes: int) -> str:
    """A size in bytes with a unit.

    >>> format_bytes(1_500_000)
    '1.5 MB'
    """
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_bytes_read(bytes_read: int, size_bytes: int) -> str:
    """How many bytes of files were read; bytes that are read twice count twice.

    >>> format_bytes_read(2_000_000, 47_000_000)
    '2.0 MB of 47.0 MB read'
    >>> format_bytes_read(50_000_000, 47_000_000)
    '50.0 MB read, some of 47.0 MB more than once'
    """
    if bytes_read > size_bytes:
        return f"{format_bytes(bytes_read)} read, some of {format_bytes(size_bytes)} more than once"
    return f"{format_bytes(bytes_read)} of {format_bytes(size_bytes)} read"


def counted(number: int, thing: str) -> str:
    """A number and a noun, in the plural unless the number is 1.

    >>> counted(1, "recording"), counted(2, "recording")
    ('1 recording', '2 recordings')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_length(seconds: float) -> str:
    """A length of time in words.

    >>> [format_length(seconds) for seconds in (40, 90, 600, 7_200, 7_260)]
    ['40 s', '1 min 30 s', '10 min', '2 h', '2 h 1 min']
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """One line per note; a note that several recordings share is one line that counts them.

    >>> format_notes([("a.mp4", "silent"), ("b.mp4", "silent"), ("b.mp4", "cut off")])
    ['2 recordings (a.mp4, …): silent', 'b.mp4: cut off']
    """
    paths: dict[str, list[str]] = {}
    for path, note in notes:
        paths.setdefault(note, []).append(path)
    return [
        f"{same[0]}: {note}" if len(same) == 1 else f"{len(same)} recordings ({same[0]}, …): {note}"
        for note, same in paths.items()
    ]
