"""Results on episodes: operating points, the undercount, downsampling, boundaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from earmark.features.encoder import split_name
from earmark.gate.episodes import Episodes
from earmark.gate.frontline import frontline_named
from earmark.media import Meter
from earmark_lab.annotations.actions import Action
from earmark_lab.encoders.chunk_encoder import PAPER_THRESHOLD, segments
from earmark_lab.encoders.chunk_encoder import boundaries as segment_boundaries
from earmark_lab.experiments import figures
from earmark_lab.experiments import paper as published
from earmark_lab.experiments.benchmark import choose, whole_calls
from earmark_lab.experiments.operating_points import (
    UNITS,
    EpisodeShape,
    EpisodeTrial,
    OperatingPoint,
    find_episodes,
    points_table,
)
from earmark_lab.experiments.paper import RULE, primary_of
from earmark_lab.experiments.report import Drawing, mean
from earmark_lab.experiments.score_sources import score_recordings
from earmark_lab.metrics.counts import (
    MatchCounts,
    compare_boundaries,
    match_events,
    uniform_windows,
)
from earmark_lab.reproduce.inputs import PaperInputs
from earmark_lab.reproduce.printed import NETWORKS, REDUCTION, Printed
from earmark_lab.reproduce.reproduction import Comparison, Made, boundary_rows


def make_trial(inputs: PaperInputs, line: str) -> EpisodeTrial:
    source = inputs.scores()
    chosen = score_recordings(source, line, inputs.split.development)
    judged = score_recordings(source, line, primary_of(source.evaluated.recordings))
    return EpisodeTrial(chosen, judged, inputs.plan.window)


def operating_points(inputs: PaperInputs) -> dict[str, list[OperatingPoint]]:

    def choose() -> dict[str, list[OperatingPoint]]:
        lines = inputs.scores().frontlines
        return {line: make_trial(inputs, line).measure_points() for line in lines}

    return inputs.compute_once("operating points", choose)


def find_point(points: Sequence[OperatingPoint], target: float = 0.93) -> OperatingPoint:
    return next(point for point in points if point.target == target)


def deployed_rule(inputs: PaperInputs) -> Episodes | None:
    """None without sound, or if nothing reaches the deployed point."""
    if not inputs.media:  # one score a window makes no episodes
        return None
    return find_point(next(iter(operating_points(inputs).values()))).rule


def make_operating_points(inputs: PaperInputs) -> Iterator[Made]:
    points, ran = operating_points(inputs), inputs.describe_scores()
    source = inputs.scores()
    n = f"{len(primary_of(source.evaluated.recordings))} recordings"
    first = next(iter(points))
    others = {split_name(line)[0]: None for line in list(points)[1:]}
    for name, paper in {**others, **published.REDUCTIONS}.items():
        yield _reduction_row(inputs, points, name, paper)
    yield _threshold_row(inputs, first)
    counts = find_point(points[first]).counts
    lasts = counts.kept / counts.episodes if counts.episodes else float("nan")
    sizes = (counts.episodes, lasts, counts.calls, counts.charged)
    emitted = (100 * counts.recall, *sizes, counts.undercount)
    for (what, paper), ours in zip(published.UNDERCOUNT.items(), emitted, strict=True):
        yield Comparison(f"gate at 93 %: {what}", paper, ours, n, ran=ran)
    if rule := find_point(points[first]).rule:
        drawn = make_trial(inputs, first).recall_at_random(rule)
        values = [100 * counts.recall for counts in drawn]
        ends = (mean(values), f"{len(drawn)} draws", min(values), max(values), ran)
        remarks = "as many spans of the same lengths, placed at random (interval: range of draws)"
        yield Comparison("random spans like the gate's at 93 %: recall, %", None, *ends, remarks)
    yield from _crossing_rows(inputs, points, first)
    for target, threshold in published.THRESHOLDS.items():
        rule = find_point(points[first], target).rule
        quantity = f"gate: opens at, for {100 * target:g} %"
        yield Comparison(quantity, threshold, rule.on if rule else None, n, ran=ran)
    note = f"Chosen on {len(inputs.split.development)} development recordings; {ran}."
    yield points_table(points, note=note)


def _reduction_row(
    inputs: PaperInputs, points: dict[str, list[OperatingPoint]], name: str, paper: Printed
) -> Comparison:
    quantity = REDUCTION.format(name)
    own = [line for line in points if split_name(line)[0] == name]
    if name != "gate" and not own:
        cure = f"bring its weights (earmark models add {name} FILE) and --frontlines {name}"
        return Comparison.missing(quantity, paper, cure)
    line = next(iter(points)) if name == "gate" else own[0]
    return _point_row(quantity, paper, find_point(points[line]), inputs.describe_scores(line))


def _point_row(quantity: str, paper: Printed, point: OperatingPoint, ran: str) -> Comparison:
    if point.rule is None:
        return Comparison.missing(quantity, paper, f"no threshold reaches it; {ran}")
    counts, (low, high) = point.counts, point.reduction_interval
    ends = (100 * low, 100 * high)
    remarks = f"recall {100 * counts.recall:.1f} %, calls {100 * counts.cost:.1f} %"
    n = f"{len(point.judged)} recordings"
    return Comparison(quantity, paper, 100 * counts.reduction, n, *ends, ran, remarks)


def _threshold_row(inputs: PaperInputs, gate: str) -> Comparison:
    """The paper says no more of it than "thresholded posteriors" of what the gate reads."""
    quantity = REDUCTION.format("the threshold rule")
    line = getattr(frontline_named(inputs.resolve_frontline(gate)).scorer, "encoder", gate)
    (point,) = make_trial(inputs, line).measure_points([0.93], shape=EpisodeShape())
    row = _point_row(quantity, published.THRESHOLD_RULE, point, inputs.describe_scores(line))
    remarks = (
        "our reading of the paper's two words, 'thresholded posteriors': one threshold, no head"
    )
    return replace(row, remarks=f"{row.remarks}; {remarks}")


def _crossing_rows(
    inputs: PaperInputs, points: dict[str, list[OperatingPoint]], gate: str
) -> Iterator[Comparison]:
    flow = next((line for line in points if split_name(line)[0] == "flow"), None)
    for target, paper in published.CROSSING.items():
        quantity = f"flow minus gate, reduction at {100 * target:g} %, points"
        if flow is None:
            why = "bring video, and add flow to --frontlines"
            yield Comparison.missing(quantity, paper, why)
            continue
        theirs, ours = (find_point(points[line], target) for line in (flow, gate))
        gap = 100 * (theirs.counts.reduction - ours.counts.reduction)
        remarks = "the paper: they cross at 90 %" if target == 0.90 else ""
        ran = f"{inputs.describe_frontline(flow)} against {inputs.describe_scores(gate)}"
        n = f"{len(ours.judged)} recordings"
        yield Comparison(quantity, paper, gap, n, ran=ran, remarks=remarks)


def make_downsampling(inputs: PaperInputs) -> Iterator[Made]:
    trial, ran = make_trial(inputs, inputs.scores().frontlines[0]), inputs.describe_scores()
    n = f"{len(trial.judged)} recordings"
    for unit, (more, less) in zip(UNITS, ((6, 2), (3, 7)), strict=True):
        table = trial.downsample_table(unit)
        for cells in table.rows:
            gain = float(cells[more]) - float(cells[less])
            quantity = f"dev recall {cells[0]}: {unit} saved by looking, points"
            remarks = "the paper: inside seed variance"
            yield Comparison(quantity, None, gain, n, ran=ran, remarks=remarks)
        yield table


def make_boundaries(inputs: PaperInputs) -> Iterator[Made]:
    ran, rule = inputs.describe_scores(), deployed_rule(inputs)
    total: defaultdict[tuple[str, float], MatchCounts] = defaultdict(MatchCounts)
    trial = make_trial(inputs, inputs.scores().frontlines[0])
    for scored in trial.judged if rule else ():
        episodes = find_episodes(scored, rule)
        systems = {"episodes": episodes, **uniform_windows(len(episodes), scored.duration)}
        for name, by in compare_boundaries(scored.actions, systems).items():
            for tolerance, counts in by.items():
                total[name, tolerance] += counts
    for row in boundary_rows(total, n="boundaries found", ran=ran):
        own = "episodes" in row.quantity
        remarks = "the paper's are a domain-tuned head's" if own else "the paper does not say which"
        yield replace(row, remarks=remarks)
    yield from _network_rows(inputs)


def _network_rows(inputs: PaperInputs) -> Iterator[Comparison]:
    named = {split_name(line)[0]: line for line in inputs.plan.frontlines}
    for name, paper in NETWORKS.items():
        quantity = f"{name}: boundaries at {PAPER_THRESHOLD:g}"
        if name not in named or not inputs.media:
            cure = f"bring its weights (earmark models add {name} FILE), --frontlines {name}"
            yield Comparison.missing(quantity, paper, cure)
            continue
        yield from _segment_rows(inputs, named[name], quantity, paper)


def _segment_rows(inputs: PaperInputs, line: str, quantity: str, paper: float) -> list[Comparison]:
    encoder = replace(frontline_named(line).encoder, reads="logits", threshold=0.0)  # type: ignore[type-var]
    classes: tuple[str, ...] = encoder.classes  # type: ignore[attr-defined]
    count, matched = 0, MatchCounts()
    names = primary_of(inputs.split.judged)
    for name in names:
        tracks = list(encoder(inputs.recording(name), meter=Meter()))
        count += len(segment_boundaries(segments(tracks, classes, threshold=PAPER_THRESHOLD)))
        if inputs.events and name in inputs.events.recordings:
            events = [
                Action(segment.span.start, segment.span.end, segment.name)
                for segment in segments(tracks, classes, threshold=0.5)
            ]
            matched += match_events(inputs.events.recordings[name], events)
    ran, n = f"{encoder!r}; {inputs.plan.sound}", f"{len(names)} recordings"
    values: list[tuple[str, Printed, float]] = [(quantity, paper, count)]
    remarks = f"{len(classes)} classes"
    if matched.reference:
        values.append((f"{line}: event F1, collar 0.5 s, %", None, 100 * matched.f1))
    return [Comparison(*row, n, ran=ran, remarks=remarks) for row in values]


def make_strip(inputs: PaperInputs) -> Iterator[Made]:
    """The busiest sixty seconds of the first recording."""
    source, ran, rule = inputs.scores(), inputs.describe_scores(), deployed_rule(inputs)
    line, name = source.frontlines[0], next(iter(source.evaluated.recordings))
    case = source.tasks()[line, name]()
    (picks,) = choose(case, RULE, [whole_calls(0.25, len(case.windows), inputs.plan.rounding)])
    minute = figures.busiest_minute(picks, case.windows.duration)
    episodes = find_episodes(score_recordings(source, line, [name])[0], rule) if rule else []
    strip = figures.TimelineStrip(
        title=f"{name}: {RULE} at 25 % of calls, scores from {line}",
        span=minute,
        actions=[action for action in case.actions if action.overlaps(minute)],
        picks=[pick for pick in picks if pick.span.overlaps(minute)],
        scores=source.track(name, line),
        threshold=rule.on if rule else None,
        episodes=[span for span in episodes if span.overlaps(minute)],
    )
    if name in inputs.media:
        strip = figures.add_media(strip, inputs.recording(name))
    point = "at the deployed operating point (93 % dev recall), " if rule else ""
    most = "the minute of the recording with the most of them"
    caption = f"Sixty seconds {point}25 % of the calls: {most}."
    yield Comparison("calls in the minute", None, len(strip.picks), name, ran=ran)
    if rule:
        yield Comparison("episodes in the minute", None, len(strip.episodes), name, ran=ran)
    yield Drawing("strip", caption, partial(figures.draw_strip, strip))
