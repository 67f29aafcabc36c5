"""The frontline that is trained for the tables: the paper's head, named before there is one."""

from __future__ import annotations

from earmark.errors import EarmarkError
from earmark.reproduction.material import NEEDS, Material

PAPER_HEAD = "paper"
"""The frontline that is trained here: the paper's head, loss and settings, over the first of the
plan's encoders, its first seed."""


def locate(given: Material, frontline: str) -> str:
    """What to listen with: a name as it is, and for `paper` the gate file that is trained here.

    Raises:
        EarmarkError: there is no sound to train `paper` on, or nothing to train it with.
    """
    if frontline != PAPER_HEAD:
        return frontline
    if absent := [NEEDS[need] for need in ("epic", "audio", "train") if given.lacks(need)]:
        raise EarmarkError(f"the frontline {PAPER_HEAD} is trained here: bring {'; '.join(absent)}")
    from earmark.reproduction.trained_heads import paper_gate  # only training needs PyTorch

    return str(given.once("paper head", lambda: paper_gate(given)))


def what_ran(given: Material, encoder: str) -> str:
    """Head, loss, settings, encoder and data of a training, in words."""
    own = "the paper's head, loss and settings"
    other = ", ".join(f"{name} {value}" for name, value in given.plan.settings.items())
    changed = f" but {other}" if other else ""
    return f"{own}{changed} over {encoder}; {given.plan.audio_is}; {given.split.words}"
