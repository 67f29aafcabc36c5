"""Every table and figure of the paper by name: its place, its inputs, and its function."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module

from earmark.evaluation.paper import published_numbers as published
from earmark.models.registry import Registry
from earmark.reproduction.comparison import Comparison, Made
from earmark.reproduction.paper_inputs import NEEDS, PaperInputs


@dataclass(frozen=True, slots=True)
class Artefact:
    """A table, a figure or a paragraph of numbers of the paper."""

    title: str
    place: str
    """Where it is in the paper."""
    function: str
    """`module:function`, or `.module:function` of this package, of the inputs; yields `Made`."""
    needs: tuple[str, ...] = ()
    """Keys of `NEEDS`."""
    quantities: published.Quantities = field(default_factory=dict)
    """The paper's numbers, shown where it cannot be made."""

    def missing_inputs(self, inputs: PaperInputs) -> str:
        """The inputs that are missing, as text; empty if it can be made."""
        return "; ".join(NEEDS[need] for need in self.needs if inputs.lacks(need))

    def unavailable(self, why: str) -> list[Made]:
        """A row for each of its numbers with the reason why it was not computed."""
        known = self.quantities or {"the whole of it": "in the paper"}
        return [Comparison.missing(quantity, paper, why) for quantity, paper in known.items()]

    def make(self, inputs: PaperInputs) -> list[Made]:
        """Make it; if inputs are missing, return a row for each number that names them."""
        if absent := self.missing_inputs(inputs):
            return self.unavailable(f"bring {absent}")
        module, _, function = self.function.partition(":")
        return list(getattr(import_module(module, __package__), function)(inputs))


_ALONE, _COVERAGE = "annotation_tables", "coverage_comparisons"
_EPISODES, _TRAINING = "episode_comparisons", "training_comparisons"
_SCORED, _HEARD, _TRAINED = "epic scores", "epic audio", "epic audio train"

_ROWS = {
    "methods": ("Systems compared", "Table I", _ALONE, ""),
    "occupancy": ("Occupancy of each data set", "Table II", _ALONE, "epic"),
    "sets": ("The two evaluation sets", "Sec. IV-A, IV-C", _ALONE, "epic"),
    "blind": ("Every recording, even spacing", "Table VII", _ALONE, "epic"),
    "windows": ("Windows and occupancy by length", "Table VIII", _ALONE, "epic"),
    "cost": ("The cost of calls", "Sec. III-A, IV-E, V", _ALONE, ""),
    "settings": ("Training configuration", "Table IX", _TRAINING, "train"),
    "paired": ("Paired comparison, EK-100", "Tables III, V", _COVERAGE, _SCORED),
    "coverage": ("Coverage by rule and set, the plane", "Fig. 4 (b), (c)", _COVERAGE, _SCORED),
    "savings": ("Calls saved at equal coverage", "Fig. 4 (d)", _COVERAGE, _SCORED),
    "correlation": ("Gain against occupancy", "Sec. IV-B", _COVERAGE, _SCORED),
    "recordings": ("Every recording, the paper's rule", "Table VII", _COVERAGE, _SCORED),
    "window-gains": ("Ranking by window length", "Table VIII", _COVERAGE, _SCORED),
    "frontlines": (
        "Every frontline at a quarter of the calls", "Fig. 4 (b), Sec. IV-E", _COVERAGE, _HEARD,
    ),
    "operating-points": (
        "Operating points and the undercount", "Sec. III-A, IV-C, IV-D, Table IX", _EPISODES,
        _SCORED,
    ),
    "downsampling": ("Looks in the discarded stream", "Sec. IV-F", _EPISODES, _SCORED),
    "boundaries": ("Boundaries and events", "Sec. III-B, IV-E", _EPISODES, _HEARD),
    "strip": ("Sixty seconds of stream", "Fig. 3", _EPISODES, _SCORED),
    "objective": (
        "Training objective: span against frame", "Fig. 4 (a), Sec. IV-D", _TRAINING, _TRAINED,
    ),
    "transfer": ("One head over five encoders", "Table IV", _TRAINING, _TRAINED),
    "segmentation": (
        "The segmentation head on the domain's own classes", "Sec. III-B, IV-A, IV-E", _TRAINING,
        "epic events audio train",
    ),
    "ablation": (
        "In-domain sound classes against none", "Table IV, Sec. IV-D", _TRAINING,
        "epic events audio train",
    ),
    "ego4d": (
        "Ego4D: the clips and the paired comparison", "Tables III, VI, Fig. 5", _COVERAGE, "ego4d",
    ),
    "captions": (
        "Naming: frames, crops, prompts, allowances, composition", "Sec. IV-D, IV-F",
        "caption_comparisons", "epic audio video vlm",
    ),
}  # fmt: skip
"""Title, place, module and needs of each; the function is called `make_` and its name."""


def _artefact(name: str, title: str, place: str, module: str, needs: str) -> Artefact:
    function = f".{module}:make_{name.replace('-', '_')}"
    printed = published.QUANTITIES.get(name, {})
    return Artefact(title, place, function, tuple(needs.split()), printed)


ARTEFACTS: Registry[Artefact] = Registry(
    "earmark.artefacts",
    {name: _artefact(name, *row) for name, row in _ROWS.items()},
    kind="table",
)
"""In the order they are made: from annotations, from listening, from training, from captions."""
