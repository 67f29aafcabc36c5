"""Every table and figure of the paper by name: its place, its inputs, and its function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

from earmark.evaluation.paper import published_numbers as published
from earmark.models.registry import Registry
from earmark.reproduction.comparison import Comparison, Outcome
from earmark.reproduction.paper_inputs import NEEDS, PaperInputs


@dataclass(frozen=True, slots=True)
class Artefact:
    """A table, a figure or a paragraph of numbers of the paper."""

    title: str
    place: str
    """Where it is in the paper."""
    function: str
    """`module:function` of this package; returns an `Outcome`, or only its rows."""
    needs: tuple[str, ...] = ()
    """Keys of `NEEDS`."""
    quantities: tuple[tuple[str, float | str], ...] = ()
    """The paper's numbers, shown where it cannot be made."""

    def missing_inputs(self, inputs: PaperInputs) -> str:
        """The inputs that are missing, as text; empty if it can be made."""
        return "; ".join(NEEDS[need] for need in self.needs if inputs.lacks(need))

    def unavailable(self, why: str) -> Outcome:
        """A row for each of its numbers with the reason why it was not computed."""
        known = self.quantities or (("the whole of it", "in the paper"),)
        return Outcome([Comparison(name, paper, ran=f"not run: {why}") for name, paper in known])

    def make(self, inputs: PaperInputs) -> Outcome:
        """Make it; if inputs are missing, return a row for each number that names them."""
        if absent := self.missing_inputs(inputs):
            return self.unavailable(f"bring {absent}")
        module, _, function = self.function.partition(":")
        made: Outcome | Iterable[Comparison]
        made = getattr(import_module(f"earmark.reproduction.{module}"), function)(inputs)
        return made if isinstance(made, Outcome) else Outcome(list(made))


_SCORED = ("epic", "scores")

ARTEFACTS: Registry[Artefact] = Registry(
    "earmark.artefacts",
    {
        "methods": Artefact("Systems compared", "Table I", "annotation_tables:make_methods"),
        "occupancy": Artefact(
            "Occupancy of each data set", "Table II", "annotation_tables:make_occupancy", ("epic",),
            (("EPIC-KITCHENS-100: occupied, %", 85.1), ("STARSS23: occupied, %", 96.6)),
        ),
        "sets": Artefact(
            "The two evaluation sets", "Sec. IV-A, IV-C", "annotation_tables:make_sets", ("epic",),
            (("both: actions", 3392),),
        ),
        "blind": Artefact(
            "Every recording, even spacing", "Table VII", "annotation_tables:make_per_recording",
            ("epic",), (("mean of 24: uniform at 25 %, %", 48.8),),
        ),
        "windows": Artefact(
            "Windows and occupancy by length", "Table VIII", "annotation_tables:make_windows",
            ("epic",), (("4 s: occupied, %", 92.1),),
        ),
        "cost": Artefact("The cost of calls", "Sec. III-A, IV-E, V", "annotation_tables:make_cost"),
        "settings": Artefact(
            "Training configuration", "Table IX", "training_comparisons:make_settings", ("train",),
        ),
        "paired": Artefact(
            "Paired comparison, EK-100", "Tables III, V", "coverage_comparisons:make_paired",
            _SCORED, published.paired_quantities(published.PAIRED) + published.SEEN,
        ),
        "coverage": Artefact(
            "Coverage by rule and set, the plane", "Fig. 4 (b), (c)",
            "coverage_comparisons:make_coverage_by_set", _SCORED,
            (("primary, separated at 25 %, pooled, %", 46.8),),
        ),
        "savings": Artefact(
            "Calls saved at equal coverage", "Fig. 4 (d)", "coverage_comparisons:make_savings",
            _SCORED, (("5 %: calls saved by separated, %", 20.0),),
        ),
        "correlation": Artefact(
            "Gain against occupancy", "Sec. IV-B", "coverage_comparisons:make_correlation", _SCORED,
            (("5 %: Pearson", -0.59), ("50 %: Pearson", 0.0)),
        ),
        "recordings": Artefact(
            "Every recording, the paper's rule", "Table VII",
            "coverage_comparisons:make_rule_per_recording", _SCORED, published.PER_RECORDING,
        ),
        "window-gains": Artefact(
            "Ranking by window length", "Table VIII", "coverage_comparisons:make_window_gains",
            _SCORED, published.WINDOW_ROWS,
        ),
        "frontlines": Artefact(
            "Every frontline at a quarter of the calls", "Fig. 4 (b), Sec. IV-E",
            "coverage_comparisons:make_frontlines", ("epic", "audio"), published.FRONTLINES,
        ),
        "operating-points": Artefact(
            "Operating points and the undercount", "Sec. III-A, IV-C, IV-D, Table IX",
            "episode_comparisons:make_operating_points", _SCORED, published.OPERATING_POINTS,
        ),
        "downsampling": Artefact(
            "Looks in the discarded stream", "Sec. IV-F", "episode_comparisons:make_downsampling",
            _SCORED,
        ),
        "boundaries": Artefact(
            "Boundaries and events", "Sec. III-B, IV-E", "episode_comparisons:make_boundaries",
            ("epic", "audio"),
            (("B-F1 at 0.5 s, episodes, %", 22.8), ("B-F1 at 0.5 s, even segments, %", 17.4)),
        ),
        "strip": Artefact(
            "Sixty seconds of stream", "Fig. 3", "episode_comparisons:make_strip_figure", _SCORED
        ),
        "objective": Artefact(
            "Training objective: span against frame", "Fig. 4 (a), Sec. IV-D",
            "training_comparisons:make_objective", ("epic", "audio", "train"),
            (("span minus frame, points", "4.0 to 10.8"),),
        ),
        "transfer": Artefact(
            "One head over five encoders", "Table IV", "training_comparisons:make_transfer",
            ("epic", "audio", "train"), published.TRANSFERRED,
        ),
        "segmentation": Artefact(
            "The segmentation head on the domain's own classes", "Sec. III-B, IV-A, IV-E",
            "training_comparisons:make_segmentation", ("epic", "events", "audio", "train"),
            (("B-F1 at 0.5 s, segments, %", 22.8), ("boundaries at 0.95", 2015)),
        ),
        "ablation": Artefact(
            "In-domain sound classes against none", "Table IV, Sec. IV-D",
            "training_comparisons:make_ablation", ("epic", "events", "audio", "train"),
            (("classes: reduction at a recall of 89.0 %", 62.6),
             ("none: reduction at a recall of 90.8 %", 64.3)),
        ),
        "ego4d": Artefact(
            "Ego4D: the clips and the paired comparison", "Tables III, VI, Fig. 5",
            "coverage_comparisons:make_ego4d", ("ego4d",),
            (("clips with readable moments and enough windows", 247),
             *published.paired_quantities(published.EGO4D_PAIRED),
             ("moments retained, %", 80.0), ("of the stream, %", 44.5)),
        ),
        "captions": Artefact(
            "Naming: frames, crops, prompts, allowances, composition", "Sec. IV-D, IV-F",
            "caption_comparisons:make_captions", ("epic", "audio", "video", "vlm"),
            published.CAPTIONED,
        ),
    },
    kind="table",
)  # fmt: skip
"""In the order they are made: from annotations, from listening, from training, from captions."""
