"""A window asked by hand, beside an audit of the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from earmark import Recording, Span, caption
from earmark.captioning.request import Answer, Request
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_names import SoundNamer
from earmark.features.sound_tags import MAX_TAGS, class_names
from earmark.pipeline.audit import audit
from earmark.pipeline.resume import ask_window, quote_window
from earmark.pipeline.session import open_session
from earmark.run.run import Run
from making import AudioPlan, make_video


class LongTagger:
    """Names as many sounds as there can be, each as long as there is one."""

    name = "long"

    def tags(self, _: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        return [tuple(sorted(class_names("audioset"), key=len)[-MAX_TAGS:])] * len(spans)


class TrackTagger:
    """Names the track that it is given."""

    name = "tracks"

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        return [(f"track {recording.audio_track}",) for _ in spans]


@dataclass
class Noting:
    """Answers every request, and keeps it."""

    model: str = "noting"
    at_once: int | None = 1
    asked: list[Request] = field(default_factory=list)

    def check(self) -> None:
        pass

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        assert timeout > 0
        self.asked.append(request)
        return Answer("stirs", self.model, data={"activity": "stirring"})


def test_a_window_asked_by_hand_is_not_paid_for_again_by_the_run(tmp_path):
    """Speech is quoted in the prompt, and so is part of what identifies a call."""
    path = make_video(tmp_path / "one.mp4", duration=24.0, clicks=[2.0, 10.0])
    captioner, run = Noting(), tmp_path / "run"
    plan = open_session([path], budget="1", pictures=False, captioner=captioner)
    caption(settings=plan, run=run)
    with Run(run) as kept:
        (recording,), described = kept.recordings(), kept.plan()
    said = [EvidenceEntry(Span(0.0, 24.0), "said", "bring it", 0.9, "whisper")]
    with Run(run, described) as ledger:
        ledger.keep_evidence(recording.id, said, kinds=["said"], origin="whisper")
    ask_window(run, recording.id, 14.0, plan, captioner, reason="by hand")
    (asked,) = captioner.asked[1:]
    assert "bring it" in asked.prompt
    caption(settings=open_session((), plan, budget="100%"), run=run)
    assert [one.span for one in captioner.asked].count(asked.span) == 1


def test_sounds_are_named_on_the_track_that_was_listened_to(tmp_path):
    tracks = (AudioPlan(), AudioPlan((2.0, 10.0)))
    path = make_video(tmp_path / "two.mp4", duration=24.0, audio=tracks)
    captioner = Noting()
    choices = {"frontline": "energy", "budget": "1", "pictures": False, "captioner": captioner}
    plan = replace(open_session([path], **choices), namer=SoundNamer(TrackTagger()))
    caption(settings=plan, run=tmp_path / "run")
    with Run(tmp_path / "run") as run:
        (recording,) = run.recordings()
    ask_window(tmp_path / "run", recording.id, 14.0, plan, captioner, reason="by hand")
    audit(tmp_path / "run", calls=2, settings=plan)
    assert len(captioner.asked) == 4
    assert {request.tags[0] for request in captioner.asked} == {"track 1"}


def test_no_call_is_longer_than_its_quote(tmp_path):
    path = make_video(tmp_path / "one.mp4", duration=24.0, clicks=[2.0, 10.0])
    captioner, run = Noting(), tmp_path / "run"
    choices = {"frontline": "energy", "budget": "1", "pictures": False, "captioner": captioner}
    plan = replace(open_session([path], **choices), namer=SoundNamer(LongTagger()))
    caption(settings=plan, run=run)
    with Run(run) as kept:
        (recording,) = kept.recordings()
        quote = quote_window(kept, recording.id, 14.0, plan, captioner.model)
    ask_window(run, recording.id, 14.0, plan, captioner, reason="by hand")
    asked = captioner.asked[-1]
    assert "Livestock, farm animals" in asked.prompt
    assert sum(asked.most_tokens) <= quote.tokens <= sum(asked.most_tokens) + 20
