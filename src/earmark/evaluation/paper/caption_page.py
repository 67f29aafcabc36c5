"""One self-contained page of a comparison of captions: the figures, then every moment as shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple

from earmark.evaluation.metrics.caption_naming import Vocabulary
from earmark.evaluation.paper.caption_comparison import CaptionVariant, VariantScore
from earmark.evaluation.paper.caption_log import Caption
from earmark.evaluation.paper.caption_stimuli import Stimulus
from earmark.evaluation.tables.results_page import make_results_page
from earmark.evaluation.tables.table import Cells, Table, p_value
from earmark.media import Frame
from earmark.reporting.html_document import embed_image, escape

ACROSS = 320
"""Pixels across of the largest picture on the page."""

TITLE = "Do captions name what is done?"

COLUMNS = (
    *("variant", "n", "noun %", "p noun", "verb %", "p verb"),
    *("failed", "shown whole", "tokens in"),
)

STYLE = """
.moment { display: grid; grid-template-columns: 20rem 1fr; gap: 1rem; margin: 1.2rem 0;
          padding-top: 1.2rem; border-top: 1px solid var(--line) }
.moment h3 { margin: 0 0 .3rem; font-size: 1rem } .moment figure { margin: 0 0 .5rem }
.moment img { min-width: 0; max-width: 100% } .moment dl { margin: 0 }
.moment dt { color: var(--soft); font-size: .85rem } .moment dd { margin: 0 0 .7rem;
          overflow-wrap: anywhere }
.yes { color: #15803d; font-weight: 600 }
@media (prefers-color-scheme: dark) { .yes { color: #4ade80 } }
@media (max-width: 44rem) { .moment { grid-template-columns: 1fr } }
"""

Show = Callable[[Stimulus, CaptionVariant], Frame]
"""What a variant showed of a stimulus."""


def captions_table(scores: Sequence[VariantScore]) -> Table:
    """One row a variant; p is McNemar's, against the first."""
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
    show: Show,
    nouns: Vocabulary,
    verbs: Vocabulary,
    notes: Sequence[str] = (),
) -> str:
    """The page as HTML; pictures are made small and lie inside it."""

    def describe(caption: Caption) -> str:
        about = caption.stimulus
        is_named = (nouns.names(caption.text, about.noun), verbs.names(caption.text, about.verb))
        beside = [f"heard: {', '.join(caption.sounds)}"] if caption.sounds else []
        beside += ["no hand found, shown whole"] if caption.is_whole else []
        marks = "".join(
            f" · <span class='yes'>{what} ✓</span>" if named else f" · {what} ✗"
            for what, named in zip(("noun", "verb"), is_named, strict=True)
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
        said = "".join(describe(score.captions[each]) for score in answered)
        span = f"{each.recording}, {each.span.start:g}-{each.span.end:g} s"
        return (
            f"<article class='moment'><div>{shown}</div>"
            f"<div><h3>{escape(f'{each.verb} {each.noun}: {span}')}</h3><dl>{said}</dl></div>"
            f"</article>"
        )

    stimuli = sorted({each for score in scores for each in score.captions}, key=astuple)
    return make_results_page(
        TITLE,
        notes=notes,
        tables=[captions_table(scores)],
        more=f"<h2>Every moment</h2>{''.join(map(moment, stimuli))}",
        style=STYLE,
    )


def _picture(name: str, frame: Frame) -> str:
    scale = min(1.0, ACROSS / frame.width)
    small = frame.resized(max(2, round(frame.width * scale)), max(2, round(frame.height * scale)))
    return (
        f"<figure><img alt='{escape(name)}' src='{embed_image(small.jpeg(80))}'>"
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )
