"""`evaluate_captions`: whether captions name what is done, from files to scores and a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.media_match import find_media
from earmark.evaluation.metrics.caption_naming import Vocabulary
from earmark.evaluation.paper.caption_comparison import (
    TOKENS,
    CaptionTools,
    CaptionVariant,
    Crop,
    VariantScore,
    compare,
    list_variants,
    show,
)
from earmark.evaluation.paper.caption_page import captions_page
from earmark.evaluation.paper.caption_stimuli import (
    Stimulus,
    check_inside,
    draw_stimuli,
    read_stimuli,
)
from earmark.evidence.face_blur import FaceBlur
from earmark.media import Frame, Recording, open_recording
from earmark.media.atomic_file import replacing
from earmark.reporting.text_format import counted


@dataclass(frozen=True, slots=True)
class CaptionEvaluationPlan:
    """Every choice of an evaluation of captions but whom to ask."""

    actions: Path
    """A CSV with recording, start, end, noun and verb, or EPIC-KITCHENS' own."""
    media: tuple[str, ...]
    nouns: Path
    """A CSV of noun classes: key and instances."""
    verbs: Path
    """A CSV of verb classes."""
    stimuli: int = 200
    """Actions to ask about, drawn at random."""
    seed: int = 0
    base: int = TOKENS
    """Visual tokens of the full frame."""
    tokens: tuple[int, ...] = ()
    """Other allowances to sweep."""
    hands: bool = False
    """Also show only what hands reach."""
    sounds: bool = False
    """Also say what is heard."""

    def __post_init__(self) -> None:
        smallest = min((self.base, *self.tokens))
        if smallest < 1:
            raise ValueError(f"an allowance is at least 1 token, not {smallest}")

    @property
    def variants(self) -> list[CaptionVariant]:
        """The ways of asking, the full frame first."""
        return list_variants(
            tokens=self.tokens, hands=self.hands, sounds=self.sounds, base=self.base
        )


@dataclass(frozen=True, slots=True)
class CaptionEvaluation:
    """How every variant did, and all that is needed to show it."""

    scores: tuple[VariantScore, ...]
    nouns: Vocabulary
    verbs: Vocabulary
    recordings: dict[str, Recording] = field(repr=False)
    crop: Crop = field(repr=False)
    blur: FaceBlur | None = None
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> Counter[str]:
        """How often calls failed, by reason."""
        return Counter(reason for score in self.scores for reason in score.failures)

    def to_json(self) -> list[dict[str, Any]]:
        """One row of plain values a variant."""
        return [score.to_json() for score in self.scores]

    def write_page(self, path: Path) -> None:
        """Write an HTML page of every moment, as it was shown and captioned."""
        text = captions_page(
            self.scores,
            show=self._shown,
            nouns=self.nouns,
            verbs=self.verbs,
            notes=self.notes,
        )
        with replacing(path) as scratch:
            scratch.write_text(text, encoding="utf-8")

    def _shown(self, each: Stimulus, variant: CaptionVariant) -> Frame:
        frame, _ = show(each, variant, self.recordings, self.crop)
        return self.blur(frame)[0] if self.blur else frame


def evaluate_captions(plan: CaptionEvaluationPlan, tools: CaptionTools) -> CaptionEvaluation:
    """Ask about annotated actions in several ways, and score how often captions name them.

    Raises:
        AnnotationError: no action lies in the media, or one outside its recording.
        CallError: the model cannot be asked. A single failed call is counted, not raised.
    """
    nouns, verbs = Vocabulary.from_epic(plan.nouns), Vocabulary.from_epic(plan.verbs)
    recordings = {name: open_recording(each) for name, each in find_media(plan.media).items()}
    known = _known_stimuli(read_stimuli(plan.actions, nouns=nouns, verbs=verbs), plan, recordings)
    chosen = draw_stimuli(known, plan.stimuli, seed=plan.seed)
    scores = compare(chosen, recordings, plan.variants, tools, nouns=nouns, verbs=verbs)
    drawn = f"{counted(len(chosen), 'action')} of {plan.actions.name}, seed {plan.seed}"
    notes = (drawn, f"asked of {tools.captioner.model}")
    return CaptionEvaluation(tuple(scores), nouns, verbs, recordings, tools.crop, tools.blur, notes)


def _known_stimuli(
    marked: list[Stimulus], plan: CaptionEvaluationPlan, recordings: dict[str, Recording]
) -> list[Stimulus]:
    """The actions whose recording is at hand; every one of them lies inside it."""
    known = [each for each in marked if each.recording in recordings]
    if not known:
        raise AnnotationError(
            f"{plan.actions.name} marks no action of {', '.join(sorted(recordings)[:3])}; files go "
            f"by the names of their recordings, such as {marked[0].recording}.mp4"
        )
    check_inside(known, recordings)
    return known
