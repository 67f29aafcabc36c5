"""One self-contained page of a comparison of captions: the figures, then every moment as shown."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence

from earmark.evaluation.metrics.caption_naming import Vocabulary
from earmark.evaluation.paper.caption_comparison import VariantScore
from earmark.evaluation.paper.caption_log import Caption
from earmark.evaluation.paper.caption_stimuli import Stimulus
from earmark.evaluation.tables.results_page import page
from earmark.evaluation.tables.table import Table
from earmark.media import Frame

ACROSS = 320
"""Pixels across of the largest picture on the page."""

TITLE = "Do captions name what is done?"

COLUMNS = (
    *("variant", "n", "noun %", "p noun", "verb %", "p verb"),
    *("failed", "shown whole", "tokens in"),
)

STYLE = """
<style>
.moment { display: grid; grid-template-columns: 20rem 1fr; gap: 1rem; margin: 1.2rem 0;
          padding-top: 1.2rem; border-top: 1px solid var(--line) }
.moment h3 { margin: 0 0 .3rem; font-size: 1rem } .moment figure { margin: 0 0 .5rem }
.moment img { min-width: 0; max-width: 100% } .moment dl { margin: 0 }
.moment dt { color: var(--soft); font-size: .85rem } .moment dd { margin: 0 0 .7rem;
          overflow-wrap: anywhere }
.yes { color: #15803d; font-weight: 600 }
@media (prefers-color-scheme: dark) { .yes { color: #4ade80 } }
@media (max-width: 44rem) { .moment { grid-template-columns: 1fr } }
</style>
"""

Show = Callable[[Stimulus, VariantScore], Frame]
"""What a variant showed of a stimulus."""


def captions_table(rows: Sequence[VariantScore]) -> Table:
    """One row a variant; p is McNemar's, against the first."""
    return Table(
        "Ways of asking",
        COLUMNS,
        tuple(
            (
                row.variant.name,
                row.nouns.asked,
                100 * row.nouns.accuracy,
                _p(row.noun_p),
                100 * row.verbs.accuracy,
                _p(row.verb_p),
                row.failed,
                row.uncropped if row.variant.crops_hands else "–",
                "–" if row.prompt_tokens is None else round(row.prompt_tokens),
            )
            for row in rows
        ),
        note="Share of answered captions that name the class in any of its ways. p: McNemar's "
        "exact test against the first variant, on the moments both answered.",
    )


def captions_page(
    rows: Sequence[VariantScore],
    *,
    show: Show,
    nouns: Vocabulary,
    verbs: Vocabulary,
    notes: Sequence[str] = (),
) -> str:
    """The page as HTML; pictures are made small and lie inside it."""
    stimuli = sorted({each for row in rows for each in row.captions}, key=_place)
    moments = "".join(_moment(each, rows, show, nouns, verbs) for each in stimuli)
    whole = page(TITLE, notes=notes, figures={}, tables=[captions_table(rows)])
    return whole.replace("</head>", f"{STYLE}</head>").replace(
        "</body>", f"<h2>Every moment</h2>{moments}</body>"
    )


def _place(each: Stimulus) -> tuple[str, float, float, str, str]:
    return each.recording, each.span.start, each.span.end, each.noun, each.verb


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _moment(
    each: Stimulus, rows: Sequence[VariantScore], show: Show, nouns: Vocabulary, verbs: Vocabulary
) -> str:
    answered = [row for row in rows if each in row.captions]
    pictures = [row for row in answered if row is answered[0] or row.variant.crops_hands]
    shown = "".join(_picture(row.variant.name, show(each, row)) for row in pictures)
    said = "".join(_said(row.captions[each], nouns, verbs) for row in answered)
    title = f"{each.verb} {each.noun}: {each.recording}, {each.span.start:g}-{each.span.end:g} s"
    return (
        f"<article class='moment'><div>{shown}</div>"
        f"<div><h3>{html.escape(title)}</h3><dl>{said}</dl></div></article>"
    )


def _picture(name: str, frame: Frame) -> str:
    scale = min(1.0, ACROSS / frame.width)
    small = frame.resized(max(2, round(frame.width * scale)), max(2, round(frame.height * scale)))
    data = base64.b64encode(small.jpeg(80)).decode()
    name = html.escape(name, quote=True)
    return (
        f"<figure><img alt='{name}' src='data:image/jpeg;base64,{data}'>"
        f"<figcaption>{name}</figcaption></figure>"
    )


def _said(caption: Caption, nouns: Vocabulary, verbs: Vocabulary) -> str:
    about = caption.stimulus
    marks = _mark("noun", nouns.names(caption.text, about.noun))
    marks += _mark("verb", verbs.names(caption.text, about.verb))
    beside = [f"heard: {', '.join(caption.sounds)}"] if caption.sounds else []
    beside += ["no hand found, shown whole"] if caption.is_whole else []
    told = html.escape("; ".join([caption.variant, *beside]))
    return f"<dt>{told}{marks}</dt><dd>{html.escape(_readable(caption.text))}</dd>"


def _mark(what: str, is_named: bool) -> str:
    return f" · <span class='yes'>{what} ✓</span>" if is_named else f" · {what} ✗"


def _readable(text: str) -> str:
    """Without signs that a browser has no picture of."""
    return "".join(sign if sign.isprintable() or sign.isspace() else "\ufffd" for sign in text)
