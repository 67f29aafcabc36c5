"""A paragraph about each recording and about the day, written by the model of a run.

Every sentence quotes moments of the run; one whose quote does not hold is dropped.

captions, sounds ──▶ model ──▶ sentences that hold ──▶ note of the run
                                   └── their moments, of all recordings ──▶ model ──▶ the day
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from earmark.captioning.captioner import ModelAddress
from earmark.captioning.request import CHARACTERS_A_TOKEN
from earmark.errors import EarmarkError
from earmark.pipeline.answer import ANSWER_TOKENS, Meter, chat
from earmark.pipeline.session import Session
from earmark.report.moments import Moment
from earmark.run.run import PARAGRAPH, Run
from earmark.search.cited_answer import (
    MOST_ENTRIES,
    MOST_TEXT,
    CitedAnswer,
    as_messages,
    check_answer,
    overview_entries,
)
from earmark.settings import Limits

RECORDING = "What was done in this recording, in order of time? Answer in two to five sentences."
DAY = "What was done on this day, in order of time? Answer in two to six sentences."


@dataclass(frozen=True, slots=True)
class ParagraphCost:
    """The most that the paragraphs of so many recordings take."""

    calls: int
    tokens: int
    money: float

    @classmethod
    def of(cls, recordings: int, limits: Limits) -> ParagraphCost:
        calls = recordings + (recordings > 1)
        prompt = MOST_ENTRIES * MOST_TEXT // CHARACTERS_A_TOKEN
        money = calls * limits.price(prompt, ANSWER_TOKENS)
        return cls(calls, calls * (prompt + ANSWER_TOKENS), money)


def write_paragraphs(folder: Path, plan: Session, *, api_key: str | None) -> str:
    """Why not all were written; empty if they were. What has not changed is not asked again."""
    model = ModelAddress.parse(plan.settings.model)
    if model.server is None:
        return "it needs a server with the OpenAI API: --model http://HOST/v1"
    writer = _Writer(folder, model, api_key, Meter(folder, plan.settings.limits))
    try:
        with Run(folder) as run:
            rows = [row for row in run.recordings() if any(p.answer for p in run.picks(row.id))]
            entries = {row.id: overview_entries(run, row) for row in rows}
        cited: list[Moment] = []
        for recording, own in entries.items():
            cited += writer.write(recording, RECORDING, _spread(own))
        if cited:
            writer.write("", DAY, _spread(cited))
    except EarmarkError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class _Writer:
    folder: Path
    model: ModelAddress
    api_key: str | None
    meter: Meter

    def write(self, recording: str, question: str, entries: Sequence[Moment]) -> list[Moment]:
        """The moments that its paragraph cites."""
        texts = [question, str(self.model), *(f"{entry.place} {entry.text}" for entry in entries)]
        key = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        with Run(self.folder) as run:
            stored = run.paragraph(recording)
        if stored and stored["key"] == key:
            return [entries[number] for number in stored["cited"]]
        data, tokens = chat(self.model, as_messages(question, entries), self.api_key, self.meter)
        answer = check_answer(question, entries, data, tokens=tokens)
        cited = _cited(answer, entries)
        note = answer.to_json() | {"key": key, "cited": cited}
        with Run.resume(self.folder) as run:
            run.set_note(f"{PARAGRAPH}{recording}", json.dumps(note, ensure_ascii=False))
        return [entries[number] for number in cited]


def _cited(answer: CitedAnswer, entries: Sequence[Moment]) -> list[int]:
    moments = {each.entry for sentence in answer.sentences for each in sentence.citations}
    return [number for number, entry in enumerate(entries) if entry in moments]


def _spread(entries: Sequence[Moment]) -> list[Moment]:
    """At most as many as a question may have, evenly over time."""
    step = max(1, -(-len(entries) // MOST_ENTRIES))
    return list(entries[::step])
