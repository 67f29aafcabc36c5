"""`evaluate_captions`: naming accuracy of captions, from files to scores and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.media_match import find_media
from earmark.evaluation.experiment_report import make_results_page
from earmark.evaluation.paper import captions
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
from earmark.evaluation.paper.captions import Stimulus, Vocabulary
from earmark.evaluation.tables.table import Cells, Table, p_value
from earmark.evidence.face_blur import FaceBlur
from earmark.media import Frame, Recording, open_recording
from earmark.media.atomic_file import write_whole
from earmark.reporting.html_document import embed_image
from earmark.reporting.text_format import counted
from earmark.selection.notebook import escape

ACROSS = 320
"""Width in pixels of the largest picture on the page."""

TITLE = "Do captions name what is done?"

COLUMNS = (
    *("variant", "n", "noun %", "p noun", "verb %", "p verb"),
    *("failed", "shown whole", "tokens in"),
)


@dataclass(frozen=True, slots=True)
class CaptionEvaluationPlan:
    """Every setting of an evaluation of captions except the captioner."""

    actions: Path
    """A CSV with recording, start, end, noun and verb, or EPIC-KITCHENS' own."""
    media: tuple[str, ...]
    nouns: Path
    """A CSV of noun classes: key and instances."""
    verbs: Path
    """A CSV of verb classes."""
    stimuli: int = 200
    """Number of actions to caption, drawn at random."""
    seed: int = 0
    base: int = TOKENS
    """Visual tokens of the full frame."""
    tokens: tuple[int, ...] = ()
    """Other numbers of visual tokens to test."""
    hands: bool = False
    """Also test the hand crop."""
    sounds: bool = False
    """Also test sounds in the prompt."""

    def __post_init__(self) -> None:
        smallest = min((self.base, *self.tokens))
        if smallest < 1:
            raise ValueError(f"an allowance is at least 1 token, not {smallest}")

    @property
    def variants(self) -> list[CaptionVariant]:
        """The variants, the full frame first."""
        return list_variants(
            tokens=self.tokens, hands=self.hands, sounds=self.sounds, base=self.base
        )


@dataclass(frozen=True, slots=True)
class CaptionEvaluation:
    """The score of every variant, and what the page needs to show it."""

    scores: tuple[VariantScore, ...]
    recordings: dict[str, Recording] = field(repr=False)
    crop: Crop = field(repr=False)
    blur: FaceBlur | None = None
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> Counter[str]:
        """The number of failed calls by reason."""
        return Counter(reason for score in self.scores for reason in score.failures)

    def to_json(self) -> list[dict[str, Any]]:
        """One row of JSON values per variant."""
        return [score.to_json() for score in self.scores]

    def write_page(self, path: Path) -> None:
        """Write an HTML page of every stimulus with its frames and captions."""
        write_whole(path, captions_page(self.scores, show=self._shown, notes=self.notes))

    def _shown(self, each: Stimulus, variant: CaptionVariant) -> Frame:
        frame, _ = show(self.recordings[each.recording], each.time, variant, self.crop)
        return self.blur(frame)[0] if self.blur else frame


def evaluate_captions(plan: CaptionEvaluationPlan, tools: CaptionTools) -> CaptionEvaluation:
    """Caption annotated actions in several variants, and score how often they are named."""
    nouns, verbs = Vocabulary.from_epic(plan.nouns), Vocabulary.from_epic(plan.verbs)
    marked = captions.read_stimuli(plan.actions, nouns=nouns, verbs=verbs)
    named = {each.recording for each in marked}
    media = find_media(plan.media, wanted=named)
    recordings = {name: open_recording(each) for name, each in media.items() if name in named}
    known = [each for each in marked if each.recording in recordings]
    if not known:
        raise AnnotationError(
            f"{plan.actions.name} marks no action of {', '.join(sorted(media)[:3])}; files go "
            f"by the names of their recordings, such as {marked[0].recording}.mp4"
        )
    captions.check_inside(known, recordings)
    chosen = captions.draw_stimuli(known, plan.stimuli, seed=plan.seed)
    scores = compare(chosen, recordings, plan.variants, tools, nouns=nouns, verbs=verbs)
    drawn = f"{counted(len(chosen), 'action')} of {plan.actions.name}, seed {plan.seed}"
    notes = (drawn, f"asked of {tools.captioner.model}")
    return CaptionEvaluation(tuple(scores), recordings, tools.crop, tools.blur, notes)


def captions_table(scores: Sequence[VariantScore]) -> Table:
    """A table with one row per variant; p is McNemar's, against the first."""
    rows: list[Cells] = []
    for score in scores:
        noun = (100 * score.nouns.accuracy, p_value(score.noun_p))
        verb = (100 * score.verbs.accuracy, p_value(score.verb_p))
        whole = score.uncropped if score.variant.crops_hands else "—"
        asked = (score.variant.name, score.nouns.asked)
        rows.append((*asked, *noun, *verb, score.failed, whole, score.prompt_tokens))
    note = (
        "Share of answered captions that name the class in any of its ways. p: McNemar's exact "
        "test against the first variant, on the moments both answered."
    )
    return Table("Ways of asking", COLUMNS, rows, note)


def captions_page(
    scores: Sequence[VariantScore],
    *,
    show: Callable[[Stimulus, CaptionVariant], Frame],
    notes: Sequence[str] = (),
) -> str:
    """The page as one HTML file with small embedded pictures."""

    def describe(score: VariantScore, each: Stimulus) -> str:
        caption = score.captions[each]
        beside = [f"heard: {', '.join(caption.sounds)}"] if caption.sounds else []
        beside += ["no hand found, shown whole"] if caption.is_whole else []
        marks = "".join(
            f" · <span class='yes'>{what} ✓</span>" if named[each] else f" · {what} ✗"
            for what, named in (("noun", score.noun_named), ("verb", score.verb_named))
        )
        text = escape("; ".join([caption.variant, *beside]))
        # Without signs that a browser has no picture of.
        said = "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in caption.text)
        return f"<dt>{text}{marks}</dt><dd>{escape(said)}</dd>"

    def moment(each: Stimulus) -> str:
        answered = [score for score in scores if each in score.captions]
        ways = [score.variant for score in answered]
        pictures = [way for way in ways if way is ways[0] or way.crops_hands]
        shown = "".join(_picture(way.name, show(each, way)) for way in pictures)
        said = "".join(describe(score, each) for score in answered)
        span = f"{each.recording}, {each.span.start:g}-{each.span.end:g} s"
        return (
            f"<article class='moment'><div>{shown}</div>"
            f"<div><h3>{escape(f'{each.verb} {each.noun}: {span}')}</h3><dl>{said}</dl></div>"
            f"</article>"
        )

    stimuli = sorted({each for score in scores for each in score.captions}, key=astuple)
    more, tables = "".join(map(moment, stimuli)), [captions_table(scores)]
    more = f"<h2>Every moment</h2>{more}"
    style = files("earmark.evaluation.paper").joinpath("captions_page.css").read_text("utf-8")
    return make_results_page(TITLE, notes=notes, tables=tables, more=more, style=style)


def _picture(name: str, frame: Frame) -> str:
    scale = min(1.0, ACROSS / frame.width)
    small = frame.resized(max(2, round(frame.width * scale)), max(2, round(frame.height * scale)))
    return (
        f"<figure><img alt='{escape(name)}' src='{embed_image(small.jpeg(80))}'>"
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )
