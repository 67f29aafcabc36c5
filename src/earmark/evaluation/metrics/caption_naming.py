"""Whether a caption names the noun or the verb it should, against a vocabulary of classes."""

from __future__ import annotations

import ast
import csv
import re
from dataclasses import dataclass
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.table_readers import reading
from earmark.evaluation.metrics.coverage_counts import Addable, share

_WORD = re.compile(r"[a-z]+")
_PARTICLES = frozenset(
    {"in", "into", "on", "onto", "off", "of", "out", "up", "down", "from", "to", "with", "at"}
    | {"away", "back", "over", "under", "through", "around", "inside", "together", "and", "the"}
)


@dataclass(frozen=True, slots=True)
class NamingCounts(Addable):
    """Captions that name their class; adds up."""

    named: int = 0
    """Captions that say the class."""
    asked: int = 0

    @property
    def accuracy(self) -> float:
        """Share of captions that name their class; nan without captions."""
        return share(self.named, self.asked)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Classes, each with the ways of saying it.

    >>> nouns = Vocabulary({"spoon": ("spoon", "spoon:wooden", "ladle")})
    >>> nouns.names("Two wooden spoons lie there.", "spoon"), nouns.names("A fork.", "spoon")
    (True, False)
    """

    ways: dict[str, tuple[str, ...]]
    """Words by class. `spoon:wooden` and `put-down` are compounds: the first word carries them."""

    @classmethod
    def from_epic(cls, path: Path) -> Vocabulary:
        """The classes of `EPIC_100_noun_classes.csv` or `EPIC_100_verb_classes.csv`."""
        ways: dict[str, tuple[str, ...]] = {}
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                try:
                    ways[row["key"]] = tuple(ast.literal_eval(row["instances"]))
                except (KeyError, ValueError, SyntaxError) as error:
                    raise AnnotationError(
                        f"{path.name} is no list of classes: it needs the columns key and "
                        f"instances, a list of words"
                    ) from error
        return cls(ways)

    def names(self, caption: str, label: str) -> bool:
        """Whether `caption` says the class `label` in one of its ways.

        Words match in any common inflection. A compound (`spoon:wooden`) needs all of its words
        but particles, in any order; a class said nowhere in the vocabulary is its own one way.
        """
        said = {form for word in _WORD.findall(caption.lower()) for form in _stems(word)}
        for way in (label, *self.ways.get(label, ())):
            words = _WORD.findall(way.lower())
            telling = [word for word in words if word not in _PARTICLES] or words
            if telling and all(_stems(word) & said for word in telling):
                return True
        return False


def _stems(word: str) -> set[str]:
    """`word` and what is left of it without a common English ending.

    chopped, chopping, chops -> chop; slicing, sliced -> slice; knives -> knife; dries -> dry
    """
    forms = {word}
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending)
            forms.add(stem)
            if ending in ("ed", "ing"):
                forms.add(stem + "e")
                forms.add(stem[:-1] if stem[-1] == stem[-2] else stem)
    for ending, ground in (("ies", "y"), ("ied", "y"), ("ves", "f"), ("ves", "fe")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            forms.add(word.removesuffix(ending) + ground)
    return forms | _IRREGULAR.get(word, set())


_IRREGULAR: dict[str, set[str]] = {
    "took": {"take"}, "taken": {"take"}, "held": {"hold"}, "cutting": {"cut"},
    "putting": {"put"}, "puts": {"put"}, "threw": {"throw"}, "thrown": {"throw"},
    "shook": {"shake"}, "tore": {"tear"}, "ate": {"eat"}, "drank": {"drink"}, "got": {"get"},
    "broke": {"break"}, "spread": {"spread"}, "hung": {"hang"}, "drew": {"draw"},
}  # fmt: skip
