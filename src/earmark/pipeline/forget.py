"""Forgets a recording: what runs and caches keep of it is deleted, and looked for afterwards."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

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
from earmark.ledger.run_lock import RunLock
from earmark.ledger.run_reader import Run, find_runs
from earmark.media.atomic_file import replacing
from earmark.media.content_file import files_of
from earmark.media.source import as_place, name_of
from earmark.pipeline.trace_search import LEAST_TEXT, TraceSearch, search_files
from earmark.reporting.archive_index import PAGES, write_report
from earmark.reporting.report_page import pictures_of
from earmark.search.meaning_index import FILE as MEANINGS

PAGE, SAVED_PLAN = "report.html", "plan.json"
"""Files of a run that name its recordings."""


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What was forgotten, and what a search for it says afterwards."""

    recordings: tuple[str, ...]
    """Their files and addresses, as the runs had them; the files themselves are not touched."""
    runs: tuple[Path, ...]
    """Those that kept something of them."""
    empty: tuple[Path, ...]
    """Of those, the ones that hold no recording any more."""
    cached: int
    """Files deleted from the cache."""
    clips: int
    """Clips deleted that `find` had cut."""
    search: TraceSearch
    """What was looked for, where, and what was found; nothing, if all is gone."""


def find_recording(recording: str, runs: Sequence[Path]) -> dict[Path, list[RecordingRow]]:
    """The recordings called `recording` (an id, a path, a name) by the run that knows them.

    Where one was moved, or is a copy, it is known by its content under every name.

    Raises:
        EarmarkError: there is none, or the name is that of several.
    """
    known = {run: all_recordings(run) for run in runs}
    every = list(chain.from_iterable(known.values()))
    place = as_place(recording)
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
    """Delete all that the runs below `folders` and the cache keep of `recording`.

    The recording itself is not touched, nor is anything kept of others. What its calls took still
    counts against the caps of its runs.

    Args:
        recording: Its path, its name in a manifest, its id, or the name of its file.
        folders: Where to look for runs, and afterwards for what is left.
        cache: The folder of what was heard; None leaves it alone.

    Raises:
        EarmarkError: it is not known here, or its name is not its own. Nothing is deleted then.
        LedgerError: a run is at work or being read; nothing is deleted of those that follow.
    """
    runs = sorted({run.resolve() for folder in folders for run in find_runs(folder)})
    meant = find_recording(recording, runs)
    with ExitStack() as stack:
        for run in meant:
            stack.callback(RunLock(run).close)
        traces = [read_traces(run, rows) for run, rows in meant.items()]
        ids = {key for each in traces for key in each.ids}
        # What only the runs know the places of goes before they forget it.
        clips = sum(_delete(path) for each in traces for path in each.clips)
        cached = sum(_delete(path) for key in ids for path in _cached(cache, key))
        for run in meant:
            delete_recordings(run, ids)
            _clean_folder(run, traces)
    places = sorted({place for each in traces for place in each.places})
    return ForgetResult(
        tuple(places),
        tuple(meant),
        tuple(run for run in meant if not all_recordings(run)),
        cached,
        clips,
        search_files([*folders, *_parts(cache)], _needles(traces, runs), own=places),
    )


def _files(recording: RecordingRow) -> list[str]:
    return [recording.path, *(path for path, _ in recording.chapters)]


def _cached(cache: Path | None, key: str) -> Iterator[Path]:
    for folder in (cache, cache / NAMES, cache / SOUNDS) if cache else ():
        yield from files_of(folder, key)


def _parts(cache: Path | None) -> list[Path]:
    """The folders of a cache that tell of recordings; models lie beside them."""
    if cache is None:
        return []
    return [*cache.glob("[0-9a-f][0-9a-f]"), cache / NAMES, cache / SOUNDS]


def _delete(path: Path) -> bool:
    """Delete a file; whether there was one."""
    is_there = path.is_file()
    path.unlink(missing_ok=True)
    return is_there


def _clean_folder(run: Path, traces: Sequence[StoredTraces]) -> None:
    """Write the pages of a run without the recordings, and drop what can be made again."""
    _delete(run / MEANINGS)
    _delete(run / PAGES / "written.json")
    shutil.rmtree(pictures_of(run / PAGE), ignore_errors=True)
    for key in {key for each in traces for key in each.ids}:
        for page in (run / PAGES).glob(f"*-{key[:10]}.html"):
            shutil.rmtree(pictures_of(page), ignore_errors=True)
            page.unlink()
    _clean_plan(run / SAVED_PLAN, {place for each in traces for place in each.places})
    if (run / PAGE).exists():
        with Run.open(run) as kept:
            write_report(kept, run / PAGE)


def _clean_plan(path: Path, places: Set[str]) -> None:
    """Take the recordings out of the plan a run was started with from the browser."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        given = [(one, one["uris"] if isinstance(one, dict) else [one]) for one in plan["paths"]]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{path} is no plan of earmark: delete it, then forget again") from error
    paths = [one for one, uris in given if places.isdisjoint(map(as_place, uris))]
    if len(paths) == len(given):
        return
    if not paths:
        path.unlink()
        return
    with replacing(path) as scratch:
        scratch.write_text(json.dumps(plan | {"paths": paths}), encoding="utf-8")


def _needles(traces: Sequence[StoredTraces], runs: Sequence[Path]) -> dict[str, list[bytes | str]]:
    """What is looked for, by what it is: only what is not kept of another recording too."""
    others = {name for run in runs for one in all_recordings(run) for name in _names(one)}
    names = {
        name
        for each in traces
        for name in (*each.ids, *each.places, *each.names, *map(name_of, each.places))
        if "." in name or len(name) >= LEAST_TEXT
    }
    kept: set[str | bytes] = set()
    for each in traces:
        kept.update(each.texts, each.pictures)
    own = kept.difference(*(still_held(run, kept) for run in runs))
    texts = sorted((one for one in own if isinstance(one, str)), key=len, reverse=True)
    pictures = sorted(one for one in own if isinstance(one, bytes))
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
