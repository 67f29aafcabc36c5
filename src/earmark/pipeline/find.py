"""Looks for something in recordings: chooses windows by sound, asks yes or no, and repeats.

question ──▶ sounds that it means ──▶ chances ───▶ exact rule ──▶ ask yes or no ──┐
                                          ▲                                     │   in rounds
                                          └───────────── answers ◀──────────────┘
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.prompt import Prompt
from earmark.captioning.question import Question
from earmark.captioning.request import TAGS_MODEL, Answer, Request
from earmark.captioning.wrapped_captioner import WrappedCaptioner
from earmark.captioning.yes_or_no import SCHEMA, is_seen, tell_yes_or_no
from earmark.errors import EarmarkError, MediaError, UnreadableAnswer
from earmark.evidence.sound_query import SoundMatch
from earmark.evidence.window_sounds import sounds_in
from earmark.grid import Grid
from earmark.ledger.forgetting import note_clips
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import PickRow
from earmark.ledger.run_calls import CallRecorder, StoredWindows, Tasks
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.media.clip_writer import cut_clip
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.backend import Backend, open_backend
from earmark.pipeline.caption import publish
from earmark.pipeline.clips import speech_to_mute
from earmark.pipeline.listen import forget_speech, keep_sounds, listen_and_store
from earmark.pipeline.resume import resume
from earmark.pipeline.run_plan import Paths, Plan, make_plan, typed_choices
from earmark.redaction import redact
from earmark.reporting.export_formats import file_stems
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
"""Probability that a window shows what is looked for, if its stored caption means the same."""

TEMPLATE = """These pictures are from $start to $end of a body-worn recording.
Heard: $tags.
Does this show the following? {question}
Say yes only if it can be seen or plainly follows from what is seen."""


@dataclass(frozen=True, slots=True)
class FoundMoments:
    """The moments of one recording in which the model saw what was looked for."""

    path: str
    spans: tuple[Span, ...]
    """Windows answered yes, each adjusted to the sounds heard in it: see `seen_moments`."""
    what: tuple[str, ...]
    """The model's description of each moment; empty if it gave none."""
    clips: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class FindResult:
    """What was found, how many calls it took, and how much was probably missed."""

    question: str
    run: Path
    page: Path
    matches: Mapping[str, SoundMatch]
    """The sounds that the question means, by name; empty if no named sound fits."""
    calls: int
    """Answered calls for this question in this run, those of earlier commands included."""
    failed: int
    windows: int
    recordings: tuple[FoundMoments, ...]
    """Those in which it was seen, in the order in which they were given."""
    missed: MissedEstimate
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """One line for each recording that failed, and one for all calls that failed."""

    def to_json(self) -> dict[str, Any]:
        """The result as values for JSON."""
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
    """Look for what `question` says in the recordings at `paths`, with at most `calls` calls.

    A second call with the same `run` resumes: stored answers are not asked for again.

    Args:
        question: What to look for, in words: "someone uses a drill".
        paths: Files, folders, globs and addresses; those of the plan if not given.
        run: The run's folder.
        calls: Most calls over all recordings, 1 or more; those of earlier commands count.
        clips: Folder for clips of the moments found; no clips if not given.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        api_key: For a server that needs one; stored nowhere.
        progress: Updated as the search advances.
        choices: See `make_plan`: `server`, `model`, `frames`, …

    Raises:
        ValueError: the question is empty, a choice is out of range, or no model is named.
        CallError: no call can succeed. A single failed call is stored in the run, not raised.
    """
    typed_choices({"calls": calls})
    if not isinstance(question, str) or not question.strip() or calls < 1:
        raise ValueError(
            f"say what to find, and spend at least 1 call on it: not {question!r} and {calls}"
        )
    plan = make_plan(paths, plan, **{"sounds": None, **choices})
    on_grid = replace(plan.listening, grid=Grid(plan.listening.grid.length))
    asking = as_question(question, plan.question)
    plan = resume(replace(plan, listening=on_grid, question=asking, pictures=False), run)
    asked = plan.open_captioner(api_key=api_key)
    if isinstance(asked, TagsCaptioner):
        raise ValueError(
            "say whom to ask, with --vlm, --gguf or --transformers "
            "(in Python: server, gguf or transformers): see docs/models.md"
        )
    progress, captioner = progress or Progress(), YesOrNo(asked)
    captioner.check()
    sources, described = plan.sources(), plan.run_json(captioner.model) | {"find": question}
    with (
        open_backend(plan.backend, len(sources)) as backend,
        Ledger(Path(run), described, blur=plan.question.blur) as ledger,
    ):
        recordings, _ = listen_and_store(sources, plan.listening, ledger, backend, progress)
        if plan.listening.beside:
            keep_sounds(recordings.values(), plan.listening.beside, ledger, backend)
        if not plan.speech_plan.voices:
            forget_speech(ledger)
        search = _Search(question, plan, recordings, ledger, backend)
        log = CallRecorder(plan.limits, ledger, ledger.spent(), calls, progress.count_calls)
        search.read_answers()
        search.choose(0, captioner.model)  # captions made since the last search are picks too
        before = -1
        while before < search.spent < calls and not log.tally.stopped:
            before = search.spent
            tasks = search.choose(calls - before, captioner.model)
            with closing(iter(tasks)) as waiting:
                backend.ask(waiting, captioner, plan.limits, log)
            search.read_answers(log.unanswered)
        page, totals = publish(ledger)
        found, uncut = search.found(Path(clips) if clips else None)
        stopped = (log.tally.stopped,) if log.tally.stopped else ()
        with Run(ledger.folder) as kept:
            failures = [one.reason for one in kept.failed_recordings()]
        if log.tally.failed:
            calls_failed = counted(log.tally.failed, "call")
            failures.append(f"{calls_failed} failed, the last: {log.tally.last_reason}")
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
    """`before` with a prompt that asks whether `question` is seen: yes or no, when, and what."""
    template = TEMPLATE.format(question=question.strip().replace("$", "$$"))
    return replace(before, prompt=Prompt(template, SCHEMA))


@dataclass(frozen=True, slots=True)
class YesOrNo(WrappedCaptioner):
    """A captioner that writes its answers as text: `No.`, or `Yes. A hand turns a drill`."""

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request` with such a text; unchanged if it is no JSON object."""
        answer = self.captioner(request, timeout=timeout)
        if not isinstance(answer.data, dict):
            return answer
        told = tell_yes_or_no(answer.data)
        if told is None:
            raise UnreadableAnswer(
                f"the answer is neither yes nor no: {answer.text[:60]!r}",
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
            )
        text, data = told
        return replace(answer, text=text, data=data)


class _Search:
    """The state of a search: the windows of all recordings with their probabilities and answers."""

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
                store=plan.store,
            )
        )
        self.matches = {name: each for one in finders for name, each in one.matches.items()}
        meant = f"{SOUNDS_MEANT}{redact(question)}"  # the plan in the run is redacted too
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
        """Raise the probability of windows with a sound that the question means, or one like it."""
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
        """Set the probability of windows to `PAID` if a stored caption means the same."""
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
        """Number of windows with an answer."""
        return sum(len(one.asked) for one in self.many)

    @property
    def spent(self) -> int:
        """Number of windows with an answer or a failed call."""
        return self.answered + sum(len(one.lost) for one in self.many)

    def read_answers(self, lost: Collection[tuple[str, Span]] = ()) -> None:
        """Read the answers that the ledger holds; calls in `lost` failed, and are not repeated."""
        with Run(self.ledger.folder) as run:
            for one in self.many:
                spans = (span for key, span in lost if key == one.key)
                one.lost |= {one.windows.window_at(span.start) for span in spans}
                answers = ((row.span, is_seen(row.answer)) for row in run.picks(one.key))
                one.asked = {
                    one.windows.window_at(span.start): seen
                    for span, seen in answers
                    if seen is not None
                }

    def choose(self, calls: int, model: str) -> Tasks:
        """The next windows to ask about, at most `calls`; they are stored as picks of the run."""
        tasks = Tasks(self.plan.question, model, self.ledger, self.recordings)
        chosen = next_windows(self.many, calls)
        with Run(self.ledger.folder) as run:
            for one, new in zip(self.many, chosen, strict=True):
                tasks.lost = [*tasks.lost, *((one.key, one.windows.span(w)) for w in one.lost)]
                self._keep(run, one, new, tasks)
        return tasks

    def _keep(self, run: Run, one: TargetWindows, new: list[int], tasks: Tasks) -> None:
        looked = {*one.asked, *one.lost, *new}
        captioned = self._captioned(run, one) - looked
        every = sorted(looked | captioned)
        chances = one.chances
        rated = replace(one.windows, scores=chances, rates=chances)

        def reason(window: int, _: float) -> str:
            likely = f"{chances[window]:.0%} likely before looking"
            return "captioned before" if window in captioned else likely

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

        def requests(windows: Collection[int], model: str) -> Iterator[Request]:
            for pick in picks:
                if one.windows.window_at(pick.start) in windows:
                    yield Request.about(one.key, pick, tasks.question, sounds[pick.span], model)

        if captioned:
            self.ledger.unanswered(requests(captioned, TAGS_MODEL))  # each keeps its caption
        tasks.open[one.key] = len(self.ledger.unanswered(requests(new, tasks.model)))

    def _captioned(self, run: Run, one: TargetWindows) -> set[int]:
        """The windows with a caption of an earlier command, which the page goes on to show."""
        every = (span for span, kept in run.captions(one.key) if is_seen(kept.answer) is None)
        places = ((span, one.windows.window_at(span.start)) for span in every)
        return {place for span, place in places if one.windows.span(place) == span}

    def found(self, folder: Path | None) -> tuple[tuple[FoundMoments, ...], list[str]]:
        """The moments by recording, with clips in `folder` if given, and why some have no clip."""
        every, uncut = [], []
        sources = [self.recordings[one.key].source for one in self.many]
        stems = file_stems((source.path, source.id) for source in sources)
        for one, stem in zip(self.many, stems, strict=True):
            with Run(self.ledger.folder) as run:
                spans, picks = seen_moments(run, one.key), list(run.picks(one.key))
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
            if clips:  # `forget` deletes them with the recording
                note_clips(self.ledger, one.key, clips)
            what = tuple(_description(picks, span) for span in spans)
            every.append(FoundMoments(recording.source.path, spans, what, tuple(clips)))
        return tuple(every), uncut


def _description(picks: Iterable[PickRow], span: Span) -> str:
    """The model's description of a moment; empty if it gave none."""
    for row in picks:
        data = row.kept.answer.data if row.kept else None
        if row.span.overlaps(span) and isinstance(data, dict) and data.get("seen"):
            return str(data.get("what") or data.get("when") or "")
    return ""
