"""Deletes all that runs and caches store about a recording, then searches for remaining traces."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from earmark.errors import EarmarkError, LedgerError
from earmark.evidence.sound_listener import SOUNDS
from earmark.evidence.sound_names import NAMES
from earmark.ledger.forgetting import (
    StoredTraces,
    all_recordings,
    delete_recordings,
    read_traces,
    still_held,
)
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_lock import lock_run
from earmark.ledger.run_reader import Run, find_runs
from earmark.media.atomic_file import write_whole
from earmark.media.content_file import files_of_recording
from earmark.media.source import name_of, stored_path
from earmark.media.source_listing import SUFFIXES
from earmark.reporting.html_document import embed_json
from earmark.reporting.report_page import PAGES, pictures_of
from earmark.reporting.run_report import write_report
from earmark.search.meaning_index import FILE as MEANINGS

PAGE, SAVED_PLAN = "report.html", "plan.json"
"""Files of a run that name its recordings."""


UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Errors of a file or an archive that cannot be read, is damaged or has a password."""

LEAST_TEXT = 8
"""Fewest characters of a text to search for: shorter ones are in other files by chance."""

STRETCH, OVERLAP = 1 << 24, 1 << 16
"""Bytes of a file read at a time, and bytes before them that are searched again with them."""

MOST = 300
"""Most texts, and most pictures, to search for, to bound the time; the longest texts go first."""


@dataclass(frozen=True, slots=True)
class TraceSearch:
    """A search for traces: what for, in which files, and what it found."""

    looked_for: Mapping[str, int]
    """Number of names, texts and pictures searched for, by kind."""
    files: int
    """Files searched; of media files only the name is searched."""
    size_bytes: int
    """Total size of these files."""
    found: tuple[tuple[Path, str], ...]
    """Files that still hold a trace, and its kind: names, texts or pictures."""
    unread: tuple[Path, ...] = ()
    """Files that cannot be searched: damaged or encrypted archives, and what may not be read."""


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What was deleted, and the traces that a search afterwards found."""

    recordings: tuple[str, ...]
    """Files and addresses of the recordings, as stored in the runs; the files are not deleted."""
    runs: tuple[Path, ...]
    """Runs that stored something about them."""
    empty: tuple[Path, ...]
    """Of `runs`, those that hold no recording any more."""
    cached: int
    """Number of files deleted from the cache."""
    clips: int
    """Number of deleted clips that `find` had cut."""
    search: TraceSearch
    """The search for remaining traces; its `found` is empty if all are gone."""


def find_recording(recording: str, runs: Sequence[Path]) -> dict[Path, list[RecordingRow]]:
    """The recordings that `recording` (an id, a path or a name) names, by run.

    Recordings with the same content, moved or copied, are included whatever their name.

    Raises:
        EarmarkError: there is none, or it is the file name of several.
    """
    known = {run: all_recordings(run) for run in runs}
    every = list(chain.from_iterable(known.values()))
    place = stored_path(recording)
    exact = [one for one in every if recording in (one.id, one.name) or place in _files(one)]
    loose = [one for one in every if recording in map(name_of, _files(one))]
    found = exact or loose
    if not found:
        looked = f"{len(runs)} run{'s' * (len(runs) != 1)}"
        raise EarmarkError(
            f"no recording is called {recording} in the {looked} here; give its path as "
            "`earmark export` shows it, and the folders its runs are in"
        )
    paths = sorted({one.path for one in found})
    if not exact and len(paths) > 1:
        raise EarmarkError(
            f"{recording} is the name of several recordings: say which by its path, "
            f"{' or '.join(paths[:3])}"
        )
    ids = {one.id for one in found}
    meant = {run: [one for one in rows if one.id in ids] for run, rows in known.items()}
    return {run: rows for run, rows in meant.items() if rows}


def forget(
    recording: str, folders: Sequence[Path] = (Path(),), *, cache: Path | None = None
) -> ForgetResult:
    """Delete all that the runs below `folders` and the cache store about `recording`.

    The recording itself is not deleted, nor anything about other recordings. The cost of its calls
    still counts against the caps of its runs.

    Args:
        recording: Its path, its name in a manifest, its id, or its file name.
        folders: Where to search for runs, and afterwards for remaining traces.
        cache: The folder of cached scores and sounds; None leaves it unchanged.

    Raises:
        EarmarkError: no recording, or more than one, has this name. Nothing is deleted.
        LedgerError: a run is in use or being read; the runs after it are unchanged.
    """
    runs = sorted({run.resolve() for folder in folders for run in find_runs(folder)})
    meant = find_recording(recording, runs)
    with ExitStack() as stack:
        for run in meant:
            stack.callback(lock_run(run).close)
        traces = [read_traces(run, rows) for run, rows in meant.items()]
        forgotten = list(chain.from_iterable(meant.values()))
        ids = {one.id for one in forgotten}
        places = {place for one in forgotten for place in _files(one)}
        # Clips and cached files go first: only the runs know which belong to the recording.
        clips = sum(_delete(path) for each in traces for path in each.clips)
        cached = sum(_delete(path) for key in ids for path in _cached(cache, key))
        for run in meant:
            delete_recordings(run, ids)
            _clean_folder(run, ids, places)
    needles = _needles(forgotten, traces, runs)
    return ForgetResult(
        tuple(sorted(places)),
        tuple(meant),
        tuple(run for run in meant if not all_recordings(run)),
        cached,
        clips,
        search_files([*folders, *_parts(cache)], needles, own=places),
    )


def _files(recording: RecordingRow) -> list[str]:
    return [recording.path, *(path for path, _ in recording.chapters)]


def _cached(cache: Path | None, key: str) -> Iterator[Path]:
    for folder in (cache, cache / NAMES, cache / SOUNDS) if cache else ():
        yield from files_of_recording(folder, key)


def _parts(cache: Path | None) -> list[Path]:
    """The folders of a cache with data about recordings, without those of models."""
    if cache is None:
        return []
    return [*cache.glob("[0-9a-f][0-9a-f]"), cache / NAMES, cache / SOUNDS]


def _delete(path: Path) -> bool:
    """Delete a file; returns whether it existed."""
    is_there = path.is_file()
    path.unlink(missing_ok=True)
    return is_there


def _clean_folder(run: Path, ids: Set[str], places: Set[str]) -> None:
    """Write the pages of a run without the recordings, and delete what can be made again."""
    _delete(run / MEANINGS)
    _delete(run / PAGES / "written.json")
    shutil.rmtree(pictures_of(run / PAGE), ignore_errors=True)
    for key in ids:
        for page in (run / PAGES).glob(f"*-{key[:10]}.html"):
            shutil.rmtree(pictures_of(page), ignore_errors=True)
            page.unlink()
    _clean_plan(run / SAVED_PLAN, places)
    if (run / PAGE).exists():
        with Run(run) as kept:
            write_report(kept, run / PAGE)


def _clean_plan(path: Path, places: Set[str]) -> None:
    """Remove the recordings from the plan of a run that was started from the browser.

    Deletes the plan if no recording is left. `LedgerError` if the file is no plan.
    """
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        given = [(one, one["uris"] if isinstance(one, dict) else [one]) for one in plan["paths"]]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{path} is no plan of earmark: delete it, then forget again") from error
    paths = [one for one, uris in given if places.isdisjoint(map(stored_path, uris))]
    if len(paths) == len(given):
        return
    if not paths:
        path.unlink()
        return
    write_whole(path, json.dumps(plan | {"paths": paths}))


def _needles(
    forgotten: Sequence[RecordingRow], traces: Sequence[StoredTraces], runs: Sequence[Path]
) -> dict[str, list[bytes | str]]:
    """The names, texts and pictures to search for, without those that another recording has."""
    others = {name for run in runs for one in all_recordings(run) for name in _names(one)}
    names = {
        name for one in forgotten for name in _names(one) if "." in name or len(name) >= LEAST_TEXT
    }
    stored: set[str | bytes] = set()
    for each in traces:
        stored.update(each.texts, each.pictures)
    deleted = stored.difference(*(still_held(run, stored) for run in runs))
    texts = sorted((one for one in deleted if isinstance(one, str)), key=len, reverse=True)
    pictures = sorted(one for one in deleted if isinstance(one, bytes))
    middles = [picture[len(picture) // 2 :][:96] for picture in pictures]
    encoded = [base64.b64encode(picture)[-160:-32] for picture in pictures]
    return {
        "names": sorted(names - others),
        "texts": [text for text in texts if len(text) >= LEAST_TEXT],
        "pictures": [*filter(None, chain.from_iterable(zip(middles, encoded, strict=True)))],
    }


def _names(recording: RecordingRow) -> Iterator[str]:
    yield from (recording.id, recording.name, *_files(recording))
    yield from map(name_of, _files(recording))


def search_files(
    folders: Sequence[Path], needles: Mapping[str, Sequence[bytes | str]], *, own: Collection[str]
) -> TraceSearch:
    """Search every file below `folders`, and its name, for `needles`, given by kind.

    Opens archives (.zip). Skips the files in `own`, the recordings themselves.
    """
    used = {kind: [*some][: MOST if kind != "names" else None] for kind, some in needles.items()}
    forms = {kind: list(chain.from_iterable(map(_forms, some))) for kind, some in used.items()}
    walked = chain.from_iterable(os.walk(folder.absolute()) for folder in folders)
    every = dict.fromkeys(Path(place, name) for place, _, names in walked for name in names)
    paths = [path for path in every if path.is_file() and str(path) not in own]
    found: list[tuple[Path, str]] = []
    unread = []
    for path in paths:
        kinds: set[str] = set()
        try:
            for chunk in _chunks(path):
                kinds |= _kinds_in(chunk, forms)
        except UNREADABLE:
            unread.append(path)
        found += [(path, kind) for kind in sorted(kinds)]
    size = sum(path.stat().st_size for path in paths)
    looked_for = {kind: len(some) for kind, some in used.items()}
    return TraceSearch(looked_for, len(paths), size, tuple(found), tuple(unread))


def _forms(needle: bytes | str) -> set[bytes]:
    """The needle in every encoding that files of earmark use."""
    if isinstance(needle, bytes):
        return {needle}
    shown = (needle, json.dumps(needle)[1:-1], embed_json(needle)[1:-1], quote(needle))
    return {form.encode("utf-8", "replace") for form in shown}


def _kinds_in(content: bytes, forms: Mapping[str, Sequence[bytes]]) -> set[str]:
    return {
        kind
        for kind, these in forms.items()
        if any(form in content and (kind != "names" or _is_name(form, content)) for form in these)
    }


def _is_name(name: bytes, content: bytes) -> bool:
    """Whether `name` occurs as more than the end of a longer one: not `a.mp4` in `extra.mp4`."""
    return re.search(rb"(?<![\w.-])" + re.escape(name), content) is not None


def _chunks(path: Path) -> Iterator[bytes]:
    """The name of a file, then its content in overlapping parts of bounded size.

    Of media files only the name; of an archive, the name and content of each member.
    """
    yield path.name.encode("utf-8", "replace")
    if path.suffix.lower() in SUFFIXES:
        return
    if path.suffix.lower() == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield b"" if Path(name).suffix.lower() in SUFFIXES else archive.read(name)
        return
    with path.open("rb") as file:
        before = b""
        while chunk := file.read(STRETCH):
            yield before + chunk
            before = chunk[-OVERLAP:]
