"""Finding: the question chooses the windows, the model says yes or no, and answers steer the rest.

question ──▶ sounds that are meant ──▶ chances ──▶ exact rule ──▶ ask yes or no ──┐
                                          ▲                                     │   in rounds
                                          └───────────── answers ◀──────────────┘
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.prompt import Prompt
from earmark.captioning.question import Question
from earmark.captioning.request import Answer, Request
from earmark.captioning.wrapped_captioner import WrappedCaptioner
from earmark.errors import EarmarkError, MediaError
from earmark.evidence.sound_query import SoundMatch
from earmark.evidence.window_sounds import sounds_in
from earmark.grid import Grid
from earmark.ledger.forgetting import note_clips
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_calls import CallRecorder, StoredWindows, Tasks
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.media.clip_writer import cut_clip
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.backend import Backend, open_backend
from earmark.pipeline.caption import publish
from earmark.pipeline.clips import speech_to_mute
from earmark.pipeline.listen import keep_sounds, listen_and_store
from earmark.pipeline.resume import resume
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.redaction import redact
from earmark.reporting.export_formats import distinct_names
from earmark.reporting.progress import Progress
from earmark.reporting.run_overview import SOUNDS_MEANT, seen_moments
from earmark.reporting.text_format import counted
from earmark.search.meaning_index import MeaningIndex
from earmark.search.sound_relevance import SoundFinder, sound_finders
from earmark.search.target_windows import (
    MissedEstimate,
    TargetWindows,
    estimate_missed,
    lifts,
    next_windows,
)
from earmark.selection.pick import explain
from earmark.timeline import FloatArray, Span

PAID = 0.8
"""How likely a window is to show what is meant, where a caption already paid for means it."""

TEMPLATE = """These pictures are from $start to $end of a body-worn recording.
Heard: $tags.
Does this show the following? {question}
Say yes only if it can be seen or plainly follows from what is seen."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "seen": {"type": "boolean"},
        "when": {"type": "string", "description": "when in the window, in words"},
        "what": {"type": "string", "description": "what is seen, in a sentence"},
    },
    "required": ["seen"],
}


@dataclass(frozen=True, slots=True)
class FoundMoments:
    """When something was seen in one recording."""

    path: str
    spans: tuple[Span, ...]
    """Windows that say so, each from when until when the sounds last that are heard in it."""
    what: tuple[str, ...]
    """What the model says of each."""
    clips: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class FindResult:
    """What was found, what it took, and what is probably missing."""

    question: str
    run: Path
    page: Path
    matches: Mapping[str, SoundMatch]
    """The sounds that the question was taken to mean; none where it means none that has a name."""
    calls: int
    """Answered, over every process that looked for this in this run."""
    failed: int
    windows: int
    recordings: tuple[FoundMoments, ...]
    """Those in which it was seen, in the order they were given."""
    missed: MissedEstimate
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """A line for each recording that could not be done, and one for the calls that failed."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(replace(self, matches={}))
        plain["run"], plain["page"] = str(self.run), str(self.page)
        plain["matches"] = [asdict(each) for each in self.matches.values()]
        for one in plain["recordings"]:
            one["clips"] = [str(path) for path in one["clips"]]
        return plain


def find(
    question: str,
    paths: Paths = (),
    *,
    run: str | Path,
    calls: int = 30,
    clips: str | Path | None = None,
    plan: Plan | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> FindResult:
    """Look for what `question` says in the recordings at `paths`, with at most so many `calls`.

    Asked again with the same `run` it goes on: no kept answer is asked for again.

    Args:
        question: What to look for, in words: "someone uses a drill".
        paths: Files, folders, globs and addresses; the plan's own if not given.
        run: The run's folder.
        calls: To spend, over all recordings.
        clips: A folder to cut the moments that were found into.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        api_key: For a server that wants one; kept nowhere.
        progress: Told how far it has come.
        choices: As of `make_plan`: `server`, `model`, `frames`, …

    Raises:
        ValueError: the question is empty, or a choice is out of range.
        CallError: no call could succeed. A single failed call is a row, not an error.
    """
    if not question.strip() or calls < 1:
        raise ValueError("say what to find, and spend at least 1 call on it")
    plan = make_plan(paths, plan, **{"sounds": None, **choices})
    on_grid = replace(plan.listening, grid=Grid(plan.listening.grid.length))
    asking = as_question(question, plan.question)
    plan = replace(plan, listening=on_grid, question=asking, pictures=False)
    plan = resume(plan, run)
    asked = plan.open_captioner(api_key=api_key)
    if isinstance(asked, TagsCaptioner):
        raise ValueError(
            "say whom to ask, with --vlm, --gguf or --transformers: see docs/models.md"
        )
    now, captioner = progress or Progress(), YesOrNo(asked)
    captioner.check()
    sources, described = plan.sources(), plan.run_json(captioner.model) | {"find": question}
    with (
        open_backend(plan.backend, len(sources)) as backend,
        Ledger(Path(run), described, blur=plan.question.blur) as ledger,
    ):
        recordings, _ = listen_and_store(sources, plan.listening, ledger, backend, now)
        if plan.listening.beside:
            keep_sounds(recordings.values(), plan.listening.beside, ledger, backend)
        search = _Search(question, plan, recordings, ledger, backend)
        log = CallRecorder(plan.limits, ledger, ledger.spent(), calls, now.count_calls)
        search.read_answers()
        before = -1
        while before < search.spent < calls and not log.tally.stopped:
            before = search.spent
            tasks = search.choose(calls - before, captioner.model)
            with closing(iter(tasks)) as waiting:
                backend.ask(waiting, captioner, plan.limits, log)
            search.lose(log.unanswered)
            search.read_answers()
        page, totals = publish(ledger)
        found, uncut = search.found(Path(clips) if clips else None)
        stopped = (log.tally.stopped,) if log.tally.stopped else ()
        with Run(ledger.folder) as kept:
            failures = [one.reason for one in kept.failed_recordings()]
        if log.tally.failed:
            said = f"{counted(log.tally.failed, 'call')} failed, the last: {log.tally.last_reason}"
            failures.append(said)
        return FindResult(
            question,
            Path(run),
            page,
            search.matches,
            search.answered,
            log.tally.failed,
            totals.windows,
            found,
            estimate_missed(search.many),
            (*search.notes, *stopped, *uncut),
            tuple(failures),
        )


def as_question(question: str, before: Question) -> Question:
    """What each window is asked: yes or no, and when."""
    template = TEMPLATE.format(question=question.strip().replace("$", "$$"))
    return replace(before, prompt=Prompt(template, SCHEMA))


@dataclass(frozen=True, slots=True)
class YesOrNo(WrappedCaptioner):
    """A captioner whose answers read as a sentence, such as `Yes. A hand turns a drill`."""

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, in words."""
        answer = self.captioner(request, timeout=timeout)
        if not isinstance(answer.data, dict):
            return answer
        what = str(answer.data.get("what") or "").strip()
        return replace(answer, text=f"{'Yes' if answer.data.get('seen') else 'No'}. {what}".strip())


class _Search:
    """What is known while one thing is looked for."""

    def __init__(
        self,
        question: str,
        plan: Plan,
        recordings: Mapping[str, Recording],
        ledger: Ledger,
        backend: Backend,
    ) -> None:
        self.plan, self.ledger = plan, ledger
        self.recordings = recordings
        self.notes: list[str] = []
        encoder = SentenceEncoder.if_available(plan.store)
        listening = plan.listening
        finders = list(
            sound_finders(
                question,
                listening.beside,
                length=listening.grid.length,
                meaning=encoder,
                store=plan.store or ModelStore(),
            )
        )
        self.matches = {name: each for one in finders for name, each in one.matches.items()}
        meant = f"{SOUNDS_MEANT}{redact(question)}"  # as the plan keeps it
        ledger.note(meant, json.dumps(list(self.matches)))
        if not self.matches:
            why = "no sound that has a name means it" if finders else "sounds have no names here"
            self.notes.append(f"{why}: windows are chosen by how much seems to go on in them")
        stored = StoredWindows(
            ledger.folder, listening.survival, dict.fromkeys(self.recordings, ())
        )
        self.many = [
            TargetWindows(name, windows, np.zeros(len(windows)))
            for name, windows in zip(self.recordings, stored, strict=True)
        ]
        self._by_key = {one.key: one for one in self.many}
        for finder in finders if self.matches or encoder else ():
            self._listen_for(finder, backend)
        self._read_captions(question, encoder)

    def _listen_for(self, finder: SoundFinder, backend: Backend) -> None:
        """Make windows likelier that hold a sound that is meant, or faintly sound like one."""
        hints: dict[str, FloatArray] = {}
        for recording, found in backend.map(
            finder, [one for one in self.recordings.values() if one.has_audio]
        ):
            if isinstance(found, EarmarkError):
                self.notes.append(f"{recording.source.name}: its sounds have no names: {found}")
                continue
            one = self._by_key[recording.key]
            one.relevance = np.maximum(one.relevance, found.likely[: len(one.windows)])
            hints[one.key] = found.hints[: len(one.windows)]
        for name, lift in lifts(hints).items():
            self._by_key[name].lift = self._by_key[name].lift * lift

    def _read_captions(self, question: str, encoder: SentenceEncoder | None) -> None:
        """Captions that are paid for already and mean the same make their windows likely."""
        if encoder is None:
            return
        with Run(self.ledger.folder) as run:
            hits = MeaningIndex.of(run, encoder).search(run, question, most=200)
        for hit in hits:
            one = self._by_key.get(hit.recording)
            if hit.kind == "caption" and one is not None and -hit.rank >= 0.5:
                one.told[one.windows.window_at(hit.span.start)] = PAID

    @property
    def answered(self) -> int:
        """Windows that were answered."""
        return sum(len(one.asked) for one in self.many)

    @property
    def spent(self) -> int:
        """Windows that were answered, and those whose call failed."""
        return self.answered + sum(len(one.lost) for one in self.many)

    def read_answers(self) -> None:
        """Take over what the ledger has."""
        with Run(self.ledger.folder) as run:
            for one in self.many:
                one.asked = {
                    one.windows.window_at(row.span.start): bool(row.kept.answer.data.get("seen"))
                    for row in run.picks(one.key)
                    if row.kept is not None and isinstance(row.kept.answer.data, dict)
                }

    def lose(self, lost: set[tuple[str, Span]]) -> None:
        """Calls that failed are not asked again."""
        for one in self.many:
            own = (span for key, span in lost if key == one.key)
            one.lost |= {one.windows.window_at(span.start) for span in own}

    def choose(self, calls: int, model: str) -> Tasks:
        """The next windows, no more than `calls`, kept in the run beside those that were asked."""
        tasks = Tasks(self.plan.question, model, self.ledger, self.recordings)
        chosen = next_windows(self.many, calls)
        with Run(self.ledger.folder) as run:
            for one, new in zip(self.many, chosen, strict=True):
                tasks.lost = [*tasks.lost, *((one.key, one.windows.span(w)) for w in one.lost)]
                self._keep(run, one, new, tasks)
        return tasks

    def _keep(self, run: Run, one: TargetWindows, new: list[int], tasks: Tasks) -> None:
        every = sorted({*one.asked, *one.lost, *new})
        chances = one.chances
        rated = replace(one.windows, scores=chances, rates=chances)

        def reason(window: int, _: float) -> str:
            return f"{chances[window]:.0%} likely before looking"

        picks = explain(rated, np.array(every, dtype=np.intp), reason)
        names = {
            pick.span: tuple(
                dict.fromkeys(
                    entry.text for entry in run.evidence(one.key, kinds=["heard"], within=pick.span)
                )
            )
            for pick in picks
        }
        heard = run.heard(one.key)
        spans = [pick.span for pick in picks]
        sounds = sounds_in(spans, level=heard.level if heard else None, names=names)
        tags = {span: each.tags for span, each in sounds.items()}
        self.ledger.choose(one.key, picks, tags=tags, rule="find")
        made = (
            Request.about(one.key, pick, tasks.question, sounds[pick.span], tasks.model)
            for pick in picks
            if one.windows.window_at(pick.start) in new
        )
        tasks.open[one.key] = len(self.ledger.unanswered(made))

    def found(self, folder: Path | None) -> tuple[tuple[FoundMoments, ...], list[str]]:
        """The moments of each recording that has any, cut into `folder`; why some were not."""
        every, uncut = [], []
        stems = (Path(self.recordings[one.key].source.name).stem for one in self.many)
        for one, stem in zip(self.many, distinct_names(stems), strict=True):
            with Run(self.ledger.folder) as run:
                spans = seen_moments(run, one.key)
            if not spans:
                continue
            recording = self.recordings[one.key]
            clips = []
            muted = speech_to_mute(recording, self.plan) if folder else ()
            blur = self.plan.question.blur
            for number, span in enumerate(spans if folder else (), start=1):
                path = Path(folder or "", f"{stem}-{number:03d}.mp4")
                try:
                    cut_clip(recording, span, path, muted=muted, blur=blur)
                    clips.append(path)
                except MediaError as error:
                    uncut.append(str(error))
            if clips:  # so that they can be forgotten with the recording
                note_clips(self.ledger, one.key, clips)
            what = tuple(self._what(one, span) for span in spans)
            every.append(FoundMoments(recording.source.path, spans, what, tuple(clips)))
        return tuple(every), uncut

    def _what(self, one: TargetWindows, span: Span) -> str:
        """What the model says of a moment."""
        with Run(self.ledger.folder) as run:
            for row in run.picks(one.key):
                data = row.kept.answer.data if row.kept else None
                if row.span.overlaps(span) and isinstance(data, dict) and data.get("seen"):
                    return str(data.get("what") or data.get("when") or "")
        return ""
