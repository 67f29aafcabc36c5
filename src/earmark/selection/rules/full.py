"""Every window, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick, allowance, explain


@dataclass(frozen=True, slots=True)
class Full:
    """The full scan: every window from the first on, as far as the budget goes.

    The reference every saving is measured against, so it is meant for a budget of 100 %.
    """

    is_blind: ClassVar[bool] = True
    fixed_budget: ClassVar[Budget] = Budget(share=1.0)
    """A full scan of a part would be no full scan."""

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The first `budget` windows."""
        chosen = np.arange(allowance(windows, budget))
        return explain(windows, chosen, lambda *_: "every window is taken")
