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
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from earmark.captioning.answer_schema import YES_OR_NO_SCHEMA, is_seen, tell_yes_or_no
from earmark.captioning.captioner import FORMS, TagsCaptioner, WrappedCaptioner
from earmark.captioning.request import TAGS_MODEL, Answer, Question, Request
from earmark.errors import EarmarkError, MediaError, UnreadableAnswer
from earmark.evidence.sound_names import sounds_in
from earmark.evidence.sound_query import SoundMatch
from earmark.media import Recording
from earmark.media.clip_writer import cut_clip
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.backend import Backend, open_backend
from earmark.pipeline.clips import speech_to_mute
from earmark.pipeline.listen import forget_speech, keep_sounds, listen_and_store, without_empty_run
from earmark.pipeline.resume import PAGE, resume
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.redaction import redact
from earmark.report.export_formats import file_stems
from earmark.report.find_result import SOUNDS_MEANT, seen_moments
from earmark.report.progress import Progress
from earmark.report.run_report import write_report
from earmark.run.erasure import note_written
from earmark.run.records import RunPick
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder, StoredWindows, Tasks
from earmark.search.archive_search import MeaningIndex
from earmark.search.target_windows import (
    MissedEstimate,
    SoundFinder,
    TargetWindows,
    estimate_missed,
    lifts,
    next_windows,
)
from earmark.selection.pick import explain
from earmark.settings import InvalidSetting, Settings
from earmark.text_format import Heading, counted
from earmark.timeline import FloatArray, Span, format_clock

PAID = 0.8

TEMPLATE = """These pictures are from $start to $end of a body-worn recording.
Heard: $tags.
Does this show the following? {question}
Say yes only if it can be seen or plainly follows from what is seen."""


@dataclass(frozen=True, slots=True)
class FoundMoments:
    path: str
    spans: tuple[Span, ...]
    """Each adjusted to the sounds heard in it: see `seen_moments`."""
    what: tuple[str, ...]
    clock: tuple[str, ...] = ()
    """Date, time of day and zone of each; empty if not known."""
    clips: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class FindResult:
    """What was found, how many calls it took, and how much was probably missed."""

    question: str
    run: Path
    page: Path
    matches: Mapping[str, SoundMatch]
    calls: int
    failed: int
    windows: int
    recordings: tuple[FoundMoments, ...]
    missed: MissedEstimate
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        values = asdict(replace(self, matches={}))
        values["run"], values["page"] = str(self.run), str(self.page)
        values["matches"] = [asdict(match) for match in self.matches.values()]
        for recording in values["recordings"]:
            recording["clips"] = [str(path) for path in recording["clips"]]
        return values

    def lines(self) -> Iterator[str]:
        """The moments, and how many were probably missed."""
        for recording in self.recordings:
            yield Heading(recording.path)
            for number, (span, what) in enumerate(
                zip(recording.spans, recording.what, strict=True)
            ):
                day = f" ({recording.clock[number]})" if any(recording.clock) else ""
                yield f"  {format_clock(span.start)} - {format_clock(span.end)}{day}  {what}"
                if number < len(recording.clips):
                    yield f"    {recording.clips[number]}"
        moments = sum(len(recording.spans) for recording in self.recordings)
        missed = self.missed
        if not self.calls and (self.failed or not self.windows):
            yield f"{counted(self.failed, 'call')} failed and none was answered: nothing is known"
        else:
            yield (
                f"{counted(moments, 'moment')} found with {counted(self.calls, 'call')} of "
                f"{self.windows:,} windows; probably missed: about {missed.expected:.1f} "
                f"({missed.low:.0f} to {missed.high:.0f})"
            )
        yield f"report: {self.page}"


def find(
    question: str,
    paths: Paths = (),
    *,
    run: str | Path,
    calls: int = 30,
    clips: str | Path | None = None,
    settings: Settings | Session | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> FindResult:
    """Look for what `question` says in the recordings at `paths`, with at most `calls` calls.

    The question is in words: "someone uses a drill". `calls` counts those of earlier commands: a
    second call with the same `run` resumes, and asks for no stored answer again. `clips` names a
    folder for clips of the moments found. The other arguments are those of `caption`.

    Raises:
        CallError: no call can succeed. A single failed call is stored in the run, not raised.
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"the question is empty or not text: {question!r}; say what to find")
    if calls < 1:
        raise ValueError(f"calls should be at least 1, not {calls}")
    choices["pictures"] = False
    plan = open_session(paths, settings, **choices)
    plan = resume(replace(plan, question=as_question(question, plan.question)), run)
    captioner = YesOrNo(plan.open_captioner(api_key=api_key))
    if isinstance(captioner.captioner, TagsCaptioner):
        raise InvalidSetting("model", f"name a model to ask: {FORMS}")
    captioner.check()
    progress = progress or Progress()
    sources, described = plan.sources(), plan.run_json(captioner.model) | {"find": question}
    with (
        without_empty_run(Path(run)),
        open_backend(plan.settings.backend, len(sources)) as backend,
        Run(Path(run), described, blur=plan.question.blur) as opened,
    ):
        recordings, _ = listen_and_store(sources, plan.listening, opened, backend, progress)
        if plan.listening.beside:
            keep_sounds(recordings.values(), plan.listening.beside, opened, backend, progress)
        if not plan.settings.voices:
            forget_speech(opened)
        search = _Search(question, plan, recordings, opened, backend)
        log = CallRecorder(
            plan.settings.limits, opened, opened.spent(), calls, progress.count_calls
        )
        search.read_answers()
        search.choose(0, captioner.model)  # captions made since the last search are picks too
        before = -1
        while before < search.spent < calls and not log.tally.stopped:
            before = search.spent
            tasks = search.choose(calls - before, captioner.model)
            with closing(iter(tasks)) as waiting:
                backend.ask(waiting, captioner, log)
            search.read_answers(log.unanswered)
        progress.enter("writing the report")
        page, totals = write_report(opened, opened.folder / PAGE), opened.totals()
        moments, uncut = search.found(Path(clips) if clips else None)
        tally = log.tally
        failures = [recording.reason for recording in opened.failed_recordings()]
        if tally.failed:
            calls_failed = counted(tally.failed, "call")
            failures.append(f"{calls_failed} failed, the last: {tally.last_reason}")
        return FindResult(
            question=question,
            run=Path(run),
            page=page,
            matches=search.matches,
            calls=search.answered,
            failed=tally.failed,
            windows=totals.windows,
            recordings=moments,
            missed=estimate_missed(search.many),
            notes=(*search.notes, *([tally.stopped] if tally.stopped else []), *uncut),
            failures=tuple(failures),
        )


def as_question(question: str, before: Question) -> Question:
    template = TEMPLATE.format(question=question.strip().replace("$", "$$"))
    return replace(before, template=template, schema=YES_OR_NO_SCHEMA)


@dataclass(frozen=True, slots=True)
class YesOrNo(WrappedCaptioner):
    """Writes the answers as text: `No.`, or `Yes. A hand turns a drill`."""

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        answer = self.captioner(request, timeout=timeout)
        if not isinstance(answer.data, dict):
            return answer
        decision = tell_yes_or_no(answer.data)
        if decision is None:
            raise UnreadableAnswer(
                f"the answer is neither yes nor no: {answer.text[:60]!r}",
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
            )
        text, data = decision
        return replace(answer, text=text, data=data)


class _Search:
    def __init__(
        self,
        question: str,
        plan: Session,
        recordings: Mapping[str, Recording],
        run: Run,
        backend: Backend,
    ) -> None:
        self.plan, self.run = plan, run
        self.recordings = recordings
        self.notes: list[str] = []
        encoder = SentenceEncoder.if_available(plan.store)
        listening, finder = plan.listening, None
        if listening.beside:
            length = listening.grid.length
            finder = SoundFinder.of(question, listening.beside, length=length, meaning=encoder)
        self.matches = finder.matches if finder else {}
        meant = f"{SOUNDS_MEANT}{redact(question)}"  # the plan in the run is redacted too
        run.set_note(meant, json.dumps(list(self.matches)))
        if not self.matches:
            why = "no named sound matches it"
            if finder is None:
                why = "no model that names sounds is installed"
            self.notes.append(f"{why}, so windows are chosen by how much seems to happen in them")
        stored = StoredWindows(run, dict.fromkeys(self.recordings, ()))
        self.many = [
            TargetWindows(name, windows, np.zeros(len(windows)))
            for name, windows in zip(self.recordings, stored, strict=True)
        ]
        self._by_key = {target.key: target for target in self.many}
        if finder and (self.matches or encoder):
            self._listen_for(finder, backend)
        hits = MeaningIndex.of(run, encoder).search(run, question, most=200) if encoder else ()
        for hit in hits:
            target = self._by_key.get(hit.recording)
            if hit.kind == "caption" and target is not None and -hit.rank >= 0.5:
                target.told[target.windows.window_at(hit.span.start)] = PAID

    def _listen_for(self, finder: SoundFinder, backend: Backend) -> None:
        hints: dict[str, FloatArray] = {}
        audible = [recording for recording in self.recordings.values() if recording.has_audio]
        for recording, result in backend.map(finder, audible):
            if isinstance(result, EarmarkError):
                name = recording.source.name
                self.notes.append(f"{name}: its sounds could not be named: {result}")
                continue
            target = self._by_key[recording.id]
            target.relevance = np.maximum(target.relevance, result.likely[: len(target.windows)])
            hints[target.key] = result.hints[: len(target.windows)]
        for key, lift in lifts(hints).items():
            self._by_key[key].lift = self._by_key[key].lift * lift

    @property
    def answered(self) -> int:
        return sum(len(target.asked) for target in self.many)

    @property
    def spent(self) -> int:
        return self.answered + sum(len(target.lost) for target in self.many)

    def read_answers(self, lost: Collection[tuple[str, Span]] = ()) -> None:
        for target in self.many:
            spans = (span for key, span in lost if key == target.key)
            target.lost |= {target.windows.window_at(span.start) for span in spans}
            target.asked = {
                target.windows.window_at(pick.span.start): pick.seen
                for pick in self.run.picks(target.key)
                if pick.seen is not None
            }

    def choose(self, calls: int, model: str) -> Tasks:
        tasks = Tasks(self.plan.question, model, self.run, self.recordings)
        chosen = next_windows(self.many, calls)
        for target, new in zip(self.many, chosen, strict=True):
            tasks.lost = [*tasks.lost, *((target.key, target.windows.span(w)) for w in target.lost)]
            self._keep(target, new, tasks)
        return tasks

    def _keep(self, target: TargetWindows, new: list[int], tasks: Tasks) -> None:
        looked = {*target.asked, *target.lost, *new}
        captioned = self._captioned(target) - looked
        chances = target.chances
        rated = replace(target.windows, scores=chances, rates=chances)

        def reason(window: int, _: float) -> str:
            likely = f"{chances[window]:.0%} likely before looking"
            return "captioned before" if window in captioned else likely

        picks = explain(rated, np.array(sorted(looked | captioned), dtype=np.intp), reason)
        spans = [pick.span for pick in picks]
        heard_in = partial(self.run.evidence, kinds=["heard"])
        names = {
            span: tuple(dict.fromkeys(entry.text for entry in heard_in(target.key, within=span)))
            for span in spans
        }
        heard = self.run.heard(target.key)
        sounds = sounds_in(spans, level=heard.level if heard else None, names=names)
        tags = {span: window_sounds.tags for span, window_sounds in sounds.items()}
        self.run.choose(target.key, picks, tags=tags, rule="find")

        def requests(windows: Collection[int], model: str) -> Iterator[Request]:
            for pick in picks:
                if target.windows.window_at(pick.start) in windows:
                    yield Request.about(target.key, pick, tasks.question, sounds[pick.span], model)

        if captioned:
            self.run.unanswered(requests(captioned, TAGS_MODEL))  # each keeps its caption
        tasks.open[target.key] = len(self.run.unanswered(requests(new, tasks.model)))

    def _captioned(self, target: TargetWindows) -> set[int]:
        """By an earlier command; the page goes on to show the caption."""
        captions = self.run.captions(target.key)
        spans = [span for span, answer in captions if is_seen(answer) is None]
        windows = {span: target.windows.window_at(span.start) for span in spans}
        return {window for span, window in windows.items() if target.windows.span(window) == span}

    def found(self, folder: Path | None) -> tuple[tuple[FoundMoments, ...], list[str]]:
        """The moments seen, with clips in `folder`, and why any clip could not be cut."""
        moments: list[FoundMoments] = []
        uncut: list[str] = []
        sources = [recording.source for recording in self.recordings.values()]
        stems = file_stems((source.path, source.id) for source in sources)
        for (key, recording), stem in zip(self.recordings.items(), stems, strict=True):
            spans, picks = seen_moments(self.run, key), self.run.picks(key)
            if not spans:
                continue
            clips = self._cut(recording, spans, folder / stem, uncut) if folder else []
            what = tuple(_description(picks, span) for span in spans)
            row = self.run.recording(key)
            days = (row.clock(span.start, date=True, zone=True) if row else "" for span in spans)
            found = FoundMoments(recording.source.path, spans, what, tuple(days), tuple(clips))
            moments.append(found)
        return tuple(moments), uncut

    def _cut(
        self, recording: Recording, spans: Iterable[Span], stem: Path, uncut: list[str]
    ) -> list[Path]:
        clips = []
        muted = speech_to_mute(recording, self.plan)
        for number, span in enumerate(spans, start=1):
            path = stem.with_name(f"{stem.name}-{number:03d}.mp4")
            try:
                cut_clip(recording, span, path, muted=muted, blur=self.plan.question.blur)
                clips.append(path)
            except MediaError as error:
                uncut.append(str(error))
        if clips:
            note_written(self.run.folder, clips)
        return clips


def _description(picks: Iterable[RunPick], span: Span) -> str:
    for row in picks:
        data = row.answer.data if row.answer else None
        if row.span.overlaps(span) and isinstance(data, dict) and data.get("seen"):
            return str(data.get("what") or data.get("when") or "")
    return ""
