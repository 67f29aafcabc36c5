"""The frontline `energy`: the level of the sound, with rates of its own and no trained weights."""

from __future__ import annotations

from earmark.features.energy import Energy
from earmark.gate.fitted_rates import Fit
from earmark.gate.frontline import Frontline
from earmark.gate.level_rates import LevelRates
from earmark.gate.survival import Survival

RATES = LevelRates(
    (
        Fit(1.0, -1.196, (0.185,)),
        Fit(2.0, -1.247, (0.232,)),
        Fit(4.0, -1.32, (0.304,)),
        Fit(8.0, -1.413, (0.415,)),
        Fit(16.0, -1.523, (0.574,)),
    )
)
"""Fitted by `scripts/energy_table.py` on composites, dense and sparse, of sixteen participants;
these ten numbers are all that is carried of them."""

SURVIVAL = Survival.lognormal(median=1.9, sigma=1.0)
"""The default gate's curve of how long actions last, as a log-normal."""


def energy_frontline() -> Frontline:
    """Listens to the level alone, and says how many actions to expect from it."""
    return Frontline("energy", Energy(), rates=RATES, survival=SURVIVAL)
