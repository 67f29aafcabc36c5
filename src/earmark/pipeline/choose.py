"""Choosing: the budget spent on what the ledger has, and of the picks those without an answer.

stored windows ──▶ allocate ──▶ picks ──▶ sounds named ──▶ ledger ──▶ Tasks
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from earmark.evidence.sound_names import Namer, SoundNames, name_sounds
from earmark.evidence.window_sounds import sounds_in
from earmark.gate.listener import SILENCE, Heard
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import CallRow
from earmark.ledger.run_reader import Run
from earmark.ledger.stored_windows import StoredWindows
from earmark.media import Recording, Source
from earmark.pipeline.ask import Tasks
from earmark.pipeline.backend import Backend
from earmark.pipeline.run_plan import Plan
from earmark.selection import Choice, allocate
from earmark.selection.coverage_forecast import foretell
from earmark.selection.pick import explain

NAMED_TOGETHER = 1024
"""Recordings whose sounds are named together: few enough to hold, and enough that starting the
workers, which is done for each group anew, takes a small share of thousands of short files."""


def choose_tasks(
    recordings: Mapping[Source, Recording],
    plan: Plan,
    model: str,
    ledger: Ledger,
    backend: Backend,
) -> Tasks:
    """Spend the budget, and keep the picks of every recording; those `model` has not answered."""
    tasks = Tasks(plan.question, model, ledger, {one.key: one for one in recordings.values()})
    namer = plan.open_namer()
    listening = plan.listening
    key = listening.grid.key(listening.frontline, audio_track=listening.audio_track)
    windows = StoredWindows(ledger, key, listening.survival, [], [])
    paid = [_paid_windows(one, windows, tasks, namer, backend) for one in recordings.values()]
    keys = [one.key for one in recordings.values()]
    windows = replace(windows, recordings=keys, paid=paid)
    weights = [source.weight for source in recordings]
    spent = allocate(plan.rule, windows, plan.budget, across=plan.across, weights=weights)
    chosen = zip(recordings.values(), spent, strict=True)
    with ledger.run() as run:
        while some := list(islice(chosen, NAMED_TOGETHER)):
            spans = ((one, [pick.span for pick in choice.picks]) for one, choice in some)
            named = name_sounds(namer, spans, backend.map)
            for (one, choice), (names, unnamed) in zip(some, named, strict=True):
                notes = "; ".join(filter(None, [choice.note, unnamed]))
                _keep_choice(run, one, replace(choice, note=notes), names, tasks)
    return tasks


def _paid_windows(
    recording: Recording,
    windows: StoredWindows,
    tasks: Tasks,
    namer: Namer | None,
    backend: Backend,
) -> tuple[int, ...]:
    """The windows of `recording` whose answer, to this very question, is kept already.

    So a larger budget adds to what was bought instead of choosing anew.
    """
    answered = {row.identity: row.span for row in tasks.ledger.answered(recording.key)}
    if not answered:
        return ()
    grid = windows.read(recording.key)
    places = sorted({grid.window_at(span.start) for span in answered.values()})
    picks = explain(grid, [place for place in places if place < len(grid)], lambda *_: "")
    spans = [pick.span for pick in picks]
    ((names, _),) = name_sounds(namer, [(recording, spans)], backend.map)
    sounds = sounds_in(spans, level=None, names=names)
    return tuple(
        grid.window_at(pick.start)
        for pick in picks
        if tasks.question.request(recording.key, pick, sounds[pick.span], tasks.model).identity
        in answered
    )


def _keep_choice(
    run: Run, recording: Recording, choice: Choice, names: SoundNames, tasks: Tasks
) -> None:
    """Keep the picks of one recording, and what is heard in each."""
    heard = run.heard(recording.key)
    assert heard is not None, "it was stored"
    sounds = sounds_in([pick.span for pick in choice.picks], level=heard.level, names=names)
    said = Heard(recording, "", SILENCE, heard.level, heard.access, 0, 0.0, heard.warnings)
    tasks.ledger.choose(
        recording.key,
        choice.picks,
        tags={span: each.tags for span, each in sounds.items()},
        rule=choice.rule_used,
        forecast=foretell(said, choice, float(heard.rates.sum())),
        notes=said.notes(choice.note),
    )
    made = (
        tasks.question.request(recording.key, pick, sounds[pick.span], tasks.model)
        for pick in choice.picks
    )
    tasks.open[recording.key] = len(tasks.ledger.unanswered(map(CallRow.of, made)))
