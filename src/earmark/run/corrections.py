"""Corrections of answers by people, stored beside the answers, which stay as they are.

Several people and processes may correct a run while another process writes it: a correction is one
short synced transaction on a connection of its own. Corrections are never overwritten: a person who
changes their mind adds another one, or withdraws the first.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from earmark.run.database import as_text, now, number_of
from earmark.run.run import Run
from earmark.run.schema import connect, explain_errors, require_run, transaction
from earmark.timeline import Span

RATINGS = ("right", "partly", "wrong")
VERDICTS = (*RATINGS, "reworded", "missed")
"""All but the last judge an answer; the last marks a moment that was not picked."""

MOST_TEXT, MOST_AUTHOR = 4000, 80

_JUDGED = """
SELECT calls.id, identity, text FROM calls JOIN answers ON call = calls.id
WHERE calls.recording = ?1 AND calls."start" = ?2 AND calls."end" = ?3 AND kind = 'caption'
ORDER BY EXISTS (
    SELECT 1 FROM picks JOIN notes ON name = 'plan' AND value = plan WHERE picks.call = calls.id
) DESC, at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Correction:
    recording: str
    span: Span
    verdict: str
    """One of `VERDICTS`, about the answer of this very span; `missed` of no answer."""
    author: str
    text: str = ""
    id: int = 0
    at: str = ""
    call: str = ""
    caption: str = ""
    withdrawn: str = ""


def read_corrections(run: Run, recording: str | None = None) -> list[Correction]:
    rows = run.rows(
        'SELECT r.id, c."start", c."end", verdict, author, c.text, c.id, c.at,'
        " coalesce(identity, ''), coalesce(a.text, ''), coalesce(withdrawn, '')"
        " FROM corrections c JOIN present r ON r.number = c.recording"
        " LEFT JOIN calls ON calls.id = c.call LEFT JOIN answers a ON a.call = c.call"
        " WHERE ?1 IS NULL OR r.id = ?1 ORDER BY c.id",
        recording,
    )
    return [Correction(key, Span(start, end), *rest) for key, start, end, *rest in rows]


def correct(folder: Path, correction: Correction) -> Correction:
    """Returned as stored, with its number and time; `ValueError` if there is nothing to judge."""
    correction = _checked(correction)
    start, end = correction.span.start, correction.span.end
    with _writing(folder) as database:
        number = number_of(database, correction.recording)
        if correction.verdict == "missed":
            query = "SELECT duration FROM recordings WHERE number = ?"
            (duration,) = database.execute(query, (number,)).fetchone()
            # A window may end where the grid does, a little after the recording.
            if not 0 <= start < end <= duration + 1:
                of = f"a recording of {duration:g} s"
                raise ValueError(f"{start:g} to {end:g} s is no part of {of}")
            judged = (None, "", "")
        elif (judged := database.execute(_JUDGED, (number, start, end)).fetchone()) is None:
            raise ValueError(
                f"there is no answer from {start:g} to {end:g} s to judge; "
                "mark what was overlooked as missed"
            )
        call, identity, caption = judged
        at = now()
        (key,) = database.execute(
            'INSERT INTO corrections (recording, "start", "end", verdict, text, author, at, call)'
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (number, start, end, correction.verdict, correction.text, correction.author, at, call),
        ).fetchone()
    return replace(correction, id=key, at=at, call=identity, caption=caption)


def withdraw(folder: Path, key: int) -> None:
    """It stays in the run and counts no longer; `ValueError` if there is none with that number."""
    with _writing(folder) as database:
        changed = database.execute(
            "UPDATE corrections SET withdrawn = coalesce(withdrawn, ?) WHERE id = ?", (now(), key)
        )
        if not changed.rowcount:
            raise ValueError(f"the run in {folder} has no correction {key}")


def settle(corrections: Iterable[Correction]) -> list[Correction]:
    """One correction for each answer and each missed moment, in order of time.

    Of each person the latest verdict counts, and the majority decides; without one the answer is
    left out. Of several rewordings the latest is taken.
    """
    latest: dict[tuple[str, ...], Correction] = {}
    missed: dict[tuple[object, ...], Correction] = {}
    for correction in sorted(corrections, key=lambda correction: (correction.at, correction.id)):
        if correction.withdrawn:
            continue
        recording = correction.recording
        if correction.verdict == "missed":
            moment = (recording, correction.span, correction.text.casefold())
            missed.setdefault(moment, correction)
        else:
            latest[recording, correction.call, correction.author] = correction
    verdicts: dict[tuple[str, ...], list[Correction]] = defaultdict(list)
    for (recording, call, _), correction in latest.items():
        verdicts[recording, call].append(correction)
    settled = [*filter(None, map(_majority, verdicts.values())), *missed.values()]
    return sorted(settled, key=lambda row: (row.recording, row.span, row.at))


@dataclass(frozen=True, slots=True)
class Agreement:
    right: int = 0
    judged: int = 0
    reworded: int = 0
    missed: int = 0

    share: float | None = None
    low: float | None = None
    high: float | None = None
    """Where the share of all answers lies, if those judged are typical."""

    @classmethod
    def of(cls, corrections: Iterable[Correction]) -> Agreement:
        counts = Counter(correction.verdict for correction in settle(corrections))
        right, judged = counts["right"], sum(counts.values()) - counts["missed"]
        shares = (right / judged, *wilson_interval(right, judged)) if judged else ()
        return cls(right, judged, counts["reworded"], counts["missed"], *shares)


def wilson_interval(right: int, judged: int) -> tuple[float, float]:
    """The 95 % confidence interval of the share `right / judged`; `judged` is at least 1.

    Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    z, n, share = 1.959964, judged, right / judged
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _majority(corrections: list[Correction]) -> Correction | None:
    ordered = Counter(correction.verdict for correction in corrections).most_common()
    verdict, count = ordered[0]
    if len(ordered) > 1 and count == ordered[1][1]:
        return None
    agreeing = (correction for correction in corrections if correction.verdict == verdict)
    return max(agreeing, key=lambda correction: correction.at)


def _checked(correction: Correction) -> Correction:
    if correction.verdict not in VERDICTS:
        verdict = correction.verdict[:40]
        raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}, not {verdict!r}")
    if not correction.author.strip() or len(correction.author) > MOST_AUTHOR:
        raise ValueError(f"say who corrects, in 1 to {MOST_AUTHOR} characters")
    if (length := len(correction.text)) > MOST_TEXT:
        raise ValueError(f"a correction has at most {MOST_TEXT} characters, not {length}")
    text, author = (as_text(words.strip()) for words in (correction.text, correction.author))
    if correction.verdict == "reworded" and not text:
        raise ValueError("say what the better words are")
    return replace(correction, text=text, author=author)


@contextmanager
def _writing(folder: Path) -> Iterator[sqlite3.Connection]:
    require_run(folder)
    with explain_errors(folder), closing(connect(folder, to_write=True)) as database:
        database.execute("PRAGMA synchronous = FULL")
        with transaction(database):
            yield database
