"""The page of a run: an HTML file that opens from disk without network.

Untrusted text enters a page in one of two ways: through `escape` as part of the body, or through
`data` as JSON that the script reads and only sets as text. Neither can become markup, and a content
security policy allows no other script to run. With more than `MOST_EMBEDDED` picks, the pictures
are files in a folder beside the page, and a browser loads those that come into view.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.forecast_error import as_count, as_range, how_sure
from earmark.gate.lengths import describe_lengths
from earmark.media.atomic_file import write_whole
from earmark.redaction import is_redacted
from earmark.report.day import (
    Day,
    RecordingDay,
    fold_repeats,
    read_day,
    sound_lanes,
    speech_lane,
)
from earmark.report.moments import shortened
from earmark.run.records import Expected, HeardRow, RecordingRow, RunPick
from earmark.run.run import Run
from earmark.text_format import escape
from earmark.timeline import FloatArray
from earmark.version import VERSION

Files = Sequence[tuple[str, float]]

MOST_POINTS = 4000
"""Of a sound level curve: more than a screen has columns."""

MOST_EMBEDDED = 1000
"""About ten megabytes."""

PAGES = "recordings"

PARTS = {
    "page": (
        ("moments.js", "day.js", "timeline.js", "word_search.js", "page_search.js"),
        ("page.css",),
    ),
    "index": (("moments.js", "day.js"), ("page.css", "index.css")),
}


def write_page(
    run: Run,
    path: Path,
    *,
    title: str | None = None,
    files: Mapping[str, Files] | None = None,
    rows: Sequence[RecordingRow] | None = None,
    heading: dict[str, Any] | None = None,
) -> Path:
    """Write the page of `run` to `path`, completely or not at all.

    Recordings in which something happened come first, else the order is by path. `files` are the
    files to play for each recording, by its id; `rows` the recordings to show, all if not given.
    """
    heading = heading or describe_run(run, title)
    is_large = heading["totals"]["picks"] > MOST_EMBEDDED
    pictures = PictureFiles(pictures_of(path))
    album = pictures if is_large else None
    day = read_day(run, rows=rows)
    recordings = []
    for each in day.recordings:
        row = each.row
        links = ((link_to(file, beside=path.parent), start) for file, start in row.files)
        playable = [link for link in links if link[0]] if files is None else files.get(row.id, ())
        recordings.append(_recording_json(run, each, album) | {"files": playable})
    folder = f"{quote(pictures.folder.name)}/" if is_large else ""
    data = heading | {"pictures": folder, "recordings": recordings, "day": day_json(run, day)}
    save_page(path, "page", data, has_files=is_large)
    pictures.remove_others()
    return path


def describe_run(run: Run, title: str | None = None) -> dict[str, Any]:
    totals, error = run.totals(), run.forecast_error()
    return {
        "title": title or run.folder.resolve().name,
        "opened": run.opened(),
        "version": VERSION,
        "plan": run.plan(),
        "totals": asdict(totals),
        "coverage": describe_forecast(*totals.forecast(error)),
        "missed": [asdict(missed) for missed in run.failed_recordings()],
    }


def pictures_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}_pictures")


@dataclass(slots=True, eq=False)
class PictureFiles:
    """Named by their content, so each is written only once."""

    folder: Path
    names: set[str] = field(default_factory=set)

    def keep(self, picture: bytes) -> str:
        if not picture:
            return ""
        name = f"{hashlib.sha256(picture).hexdigest()[:32]}.jpg"
        if name not in self.names and not (self.folder / name).exists():
            write_whole(self.folder / name, picture)
        self.names.add(name)
        return name

    def remove_others(self) -> None:
        for path in self.folder.glob("[0-9a-f]" * 32 + ".jpg"):
            if path.name not in self.names:
                path.unlink(missing_ok=True)


_READ_DATA = """"use strict";
const run = JSON.parse(document.getElementById("data").textContent);
"""


def save_page(path: Path, name: str, data: Any, *, has_files: bool = False) -> Path:
    needed, styles = PARTS[name]
    body = _read_part("frame.html").replace("{{middle}}", _read_part(f"{name}.html"))
    scripts = map(_read_part, ("parts.js", *needed, f"{name}.js"))
    joined = re.sub(r"^import .*\n", "", f"{_READ_DATA}{''.join(scripts)}", flags=re.MULTILINE)
    script = re.sub(r"^export ", "", joined, flags=re.MULTILINE)
    style = "".join(map(_read_part, styles))
    page = assemble("earmark", body, style=style, script=script, data=data, has_files=has_files)
    write_whole(path, page)
    return path


def _read_part(name: str) -> str:
    return files("earmark.report").joinpath(name).read_text(encoding="utf-8")


def day_json(run: Run, day: Day) -> dict[str, Any]:
    """With the pictures of the moments worth a look."""
    told = day.to_json()
    for moment, view in zip(day.moments, told["moments"], strict=True):
        shown = run.thumbnail(moment.recording, moment.picture) if moment.picture else b""
        view["image"] = base64.b64encode(shown).decode()
    return told


def _recording_json(run: Run, day: RecordingDay, album: PictureFiles | None) -> dict[str, Any]:
    recording = day.row
    heard = run.heard(recording.id)
    level, entries = heard.level, list(run.evidence(recording.id))
    if level is not None:
        level = level.thinned(hop=max(level.hop, level.duration / MOST_POINTS))
    return {
        "id": recording.id,
        "name": recording.title,
        "path": recording.path,
        "duration": recording.duration,
        "began": recording.began,
        "clock_origin": recording.clock_origin,
        "size": recording.size_bytes,
        "frames": recording.frame_count,
        "marks": recording.marks,
        "window": heard.length,
        "windows": len(heard.scores),
        "scores": scale_curve(heard.scores),
        "level": scale_curve(level.values) if level else [],
        "hop": level.hop if level else 1.0,
        **asdict(run.choice(recording.id)),
        "coverage": forecast_of(run, recording, heard),
        "access": heard.access,
        "heard": heard.sound_bytes,
        "picks": list(_picks_json(run, list(run.picks(recording.id)), album)),
        "evidence": list(_evidence_json(entries)) if entries else [],
        "lanes": sound_lanes(day),
        "speech": speech_lane(entries),
    }


def forecast_of(run: Run, recording: RecordingRow, heard: HeardRow) -> dict[str, Any]:
    choice = run.choice(recording.id)
    error, actions = run.forecast_error(), float(heard.rates.sum())
    bounds = error.count(actions, recording.duration) if error and actions else None
    return describe_forecast(
        (choice.forecast, choice.forecast_range),
        (actions or None, bounds),
        describe_lengths([heard.lengths]),
    )


def describe_forecast(coverage: Expected, actions: Expected, lengths: str = "") -> dict[str, Any]:
    share, bounds = coverage
    return {
        "share": None if share is None else round(share, 4),
        "range": (round(bounds.low, 4), round(bounds.high, 4)) if bounds else None,
        "sure": how_sure(share, bounds),
        "words": as_range(share, bounds),
        "actions": "; ".join(filter(None, (as_count(*actions), lengths))),
    }


def link_to(path: str, *, beside: Path) -> str | None:
    """None if a browser cannot open it.

    >>> link_to("https://cams.example/a b.mp4", beside=Path("."))
    'https://cams.example/a b.mp4'
    >>> link_to("s3://bucket/a.mp4", beside=Path(".")) is None
    True
    """
    scheme = urlsplit(path).scheme
    if scheme in ("http", "https"):
        return None if is_redacted(path) else path
    if len(scheme) > 1:  # one letter is a Windows drive
        return None
    absolute = Path(path).resolve()
    try:
        relative = Path(os.path.relpath(absolute, beside.resolve()))
    except ValueError:  # another Windows drive
        return absolute.as_uri()
    return quote(f"./{relative.as_posix()}")


def _evidence_json(entries: Sequence[EvidenceEntry]) -> Iterator[list[Any]]:
    """Without sounds of windows that a track of the whole recording also has."""
    tracked = {entry.text for entry in entries if entry.is_tracked}
    for entry in entries:
        if entry.kind != "heard" or entry.is_tracked or entry.text not in tracked:
            start, end = round(entry.span.start, 2), round(entry.span.end, 2)
            sure, text = round(entry.confidence, 2), shortened(entry.text)
            yield [start, end, entry.kind, text, sure, entry.model]


def _picks_json(
    run: Run, rows: Sequence[RunPick], album: PictureFiles | None
) -> Iterator[dict[str, Any]]:
    leaders = fold_repeats([row.caption for row in rows])
    for row, leader in zip(rows, leaders, strict=True):
        picture = run.thumbnail(row.recording, row.span)
        data = row.to_json()
        yield data | {
            "score": None if data["score"] is None else round(data["score"], 3),
            "expected": round(data["expected"], 2),
            "caption": shortened(row.caption) if row.caption else row.caption,
            "failure": shortened(row.failure) if row.failure else None,
            "leader": leader,
            "picture": album.keep(picture) if album else base64.b64encode(picture).decode(),
        }


def scale_curve(values: FloatArray) -> list[int]:
    """From 0 (lowest) to 100 (highest); 0 for NaN and for a flat curve."""
    if len(values) == 0:
        return []
    # The lowest 1 % is cut off the scale; digital silence is minus infinity.
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return [0] * len(values)
    # Not `numpy.quantile`: it takes ten times as long for so few values.
    ordered = np.sort(finite)
    low, high = np.interp(0.01 * (len(ordered) - 1), np.arange(len(ordered)), ordered), ordered[-1]
    scaled = (values - low) / (high - low) if high > low else np.zeros(len(values))
    whole: list[int] = np.round(100 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(int).tolist()
    return whole


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{body}{scripts}</body>
</html>
"""


def assemble(
    title: str,
    body: str,
    *,
    style: str,
    script: str = "",
    data: Any = None,
    has_files: bool = False,
) -> str:
    """`title` is text; `body`, `style` and `script` are trusted markup and code.

    The script finds `data` in the element with that id. With `has_files`, the page may show
    pictures from files beside it.
    """
    scripts = ""
    if script:
        scripts = (
            f'<script type="application/json" id="data">{embed_json(data)}</script>\n'
            f"<script>{script}</script>\n"
        )
    pictures = "data: file: 'self'" if has_files else "data:"
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        f"img-src {pictures}; media-src file: http: https:; base-uri 'none'; form-action 'none'"
    )
    return _FRAME.format(
        policy=policy, title=escape(title), style=style, body=body, scripts=scripts
    )


def embed_image(data: bytes, kind: str = "image/jpeg") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def embed_json(value: Any) -> str:
    r"""No text in it can end the script element.

    >>> embed_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # UTF-8 cannot encode lone surrogates.
    return text.encode("utf-8", "replace").decode()


def _source(text: str) -> str:
    if not text:
        return "'none'"
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
