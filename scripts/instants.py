"""Does it matter where in a picked window to look? Strict coverage by how the instant is moved.

    python scripts/instants.py DATA

Composites of the development participants only (see `composites`), default gate and rule. The
gate's score leads the sound by about half a second: actions are marked from where the hand sets
out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from composites import annotations, media

from earmark.evaluation.metrics.coverage_counts import holding
from earmark.media import find
from earmark.pipeline.listen import listen
from earmark.pipeline.run_plan import make_plan
from earmark.selection import Coverage, Pick

LATER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5)
SHARES = (0.10, 0.25, 0.50)


def main() -> None:
    """Listen, choose, and print one row a budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    develop, _ = annotations(data)
    plan = make_plan(frontline="gate")
    heard = {
        name: listen(find([media(data) / f"{name}.opus"])[0], plan.listening).windows
        for name in sorted(develop.recordings)
    }
    print("| calls | " + " | ".join(f"+{later:g} s" for later in LATER) + " | middle |")
    print("|---" * (len(LATER) + 2) + "|")
    for share in SHARES:
        budgets = [round(share * len(windows)) for windows in heard.values()]
        picks = dict(
            zip(heard, Coverage().each(list(heard.values()), budgets=budgets), strict=True)
        )
        row = [strict(picks, develop.recordings, later) for later in (*LATER, None)]
        print(f"| {share:.0%} | " + " | ".join(f"{100 * value:.1f}" for value in row) + " |")


def strict(picks: dict[str, list[Pick]], actions: dict[str, list], later: float | None) -> float:
    """Share of actions with a moved instant inside; None looks at the middle of the window."""
    held = sum(
        holding(actions[name], np.array([moved(pick, later) for pick in chosen])).sum()
        for name, chosen in picks.items()
    )
    return float(held) / sum(len(actions[name]) for name in picks)


def moved(pick: Pick, later: float | None) -> float:
    if later is None:
        return (pick.start + pick.end) / 2
    return min(pick.instant + later, pick.end - 0.02)


if __name__ == "__main__":
    main()
