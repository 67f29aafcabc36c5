"""What episodes come to: operating points, the undercount, looks between them, boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.benchmark import BenchmarkDesign
from earmark.evaluation.metrics.boundaries import (
    ONSET_COLLAR,
    TOLERANCES,
    MatchCounts,
    compare_boundaries,
    even_segments,
    match_events,
)
from earmark.evaluation.paper.downsampling import downsample_table
from earmark.evaluation.paper.operating_points import (
    AnnotatedScores,
    EpisodeShape,
    OperatingPoint,
    find_episodes,
    measure_points,
    points_table,
)
from earmark.evaluation.paper.published_numbers import REDUCTIONS, THRESHOLDS
from earmark.evaluation.score_sources import MediaScores, SoundEventScores
from earmark.evaluation.tables.timeline_strip import (
    add_media,
    busiest_minute,
    draw_strip,
    make_strip,
)
from earmark.features.encoder_spec import split_name
from earmark.features.pretrained.segments import SURE, segments
from earmark.features.pretrained.segments import boundaries as segment_boundaries
from earmark.gate.frontline_registry import frontline_named
from earmark.media import Meter
from earmark.reproduction.comparison import Comparison, Made
from earmark.reproduction.coverage_comparisons import (
    HeardScores,
    describe_frontline,
    describe_listening,
    open_scores,
)
from earmark.reproduction.material import NEEDS, Material
from earmark.reproduction.paper_frontline import locate
from earmark.reproduction.published_quantities import (
    CROSSING,
    RULE,
    THRESHOLD_RULE,
    UNDERCOUNT,
    crossing_name,
    emitted_name,
    opening_name,
    primary_of,
    reduction_name,
)
from earmark.timeline import Span


def scored(source: HeardScores, frontline: str, names: Sequence[str]) -> list[AnnotatedScores]:
    """The scores of recordings with their actions."""
    marked = source.annotations
    return [
        AnnotatedScores(
            name, source.track(name, frontline), marked.durations[name], marked.recordings[name]
        )
        for name in names
    ]


def development_of(material: Material, source: HeardScores) -> list[str]:
    """The recordings to choose on: none that is judged."""
    if isinstance(source, MediaScores):
        return list(material.split.development)
    judged = set(source.evaluated.recordings)
    return [name for name in source.annotations.recordings if name not in judged]


def operating_points(material: Material) -> dict[str, list[OperatingPoint]]:
    """The operating points of every frontline, chosen on development recordings."""
    return material.once("operating points", lambda: _choose_points(material))


def _choose_points(material: Material) -> dict[str, list[OperatingPoint]]:
    source, _ = open_scores(material)
    development, found = development_of(material, source), {}
    for line in source.frontlines:
        chosen, judged = (
            scored(source, line, names)
            for names in (development, primary_of(source.evaluated.recordings))
        )
        found[line] = measure_points(line, chosen, judged, window=material.plan.window)
    return found


def point_at(points: Sequence[OperatingPoint], target: float) -> OperatingPoint:
    """The one of a development recall."""
    return next(each for each in points if each.target == target)


def make_operating_points(material: Material) -> Made:
    """Recall, reduction, calls and undercount at the six targets, and what the paper prints."""
    found = operating_points(material)
    source, ran = open_scores(material)
    n = f"{len(primary_of(source.evaluated.recordings))} recordings"
    first = next(iter(found))
    rows = [_reduction_row(material, found, name, paper) for name, paper in REDUCTIONS.items()]
    rows.append(_threshold_row(material, first))
    rows += _undercount_rows(point_at(found[first], 0.93), n, ran)
    rows += _crossing_rows(material, found, first)
    for target, threshold in THRESHOLDS.items():
        rule = point_at(found[first], target).rule
        opens = rule.on if rule else None
        rows.append(Comparison(opening_name(target), threshold, opens, n, ran=ran))
    note = f"Chosen on {len(development_of(material, source))} development recordings; {ran}."
    return Made(rows, [points_table(found, note=note)])


def _reduction_row(
    material: Material, found: dict[str, list[OperatingPoint]], name: str, paper: float
) -> Comparison:
    """What a frontline of the paper's discards at its development recall of 93 %."""
    quantity = reduction_name(name)
    own = [line for line in found if split_name(line)[0] == name]
    if name != "gate" and not own:
        cure = f"bring its weights (earmark models add {name} FILE) and --frontlines {name}"
        return Comparison(quantity, paper, ran=f"not run: {cure}")
    line = next(iter(found)) if name == "gate" else own[0]
    return _point_row(quantity, paper, point_at(found[line], 0.93), heard_by(material, line))


def _point_row(quantity: str, paper: float, point: OperatingPoint, ran: str) -> Comparison:
    counts = point.counts
    low, high = (100 * end for end in point.reduction_interval)
    told = f"recall {100 * counts.recall:.1f} %, calls {100 * counts.cost:.1f} %"
    if point.rule is None:
        return Comparison(quantity, paper, ran=f"not run: no threshold reaches it; {ran}")
    return Comparison(
        quantity, paper, 100 * counts.reduction, f"{len(point.judged)} recordings", low, high, ran,
        told,
    )  # fmt: skip


def heard_by(material: Material, line: str) -> str:
    """What listened, and to what."""
    source, ran = open_scores(material)
    if isinstance(source, SoundEventScores):
        return ran
    return describe_listening(material, line)


def _threshold_row(material: Material, gate: str) -> Comparison:
    """The gate's own features without a head: one threshold on their activity and nothing else.

    The paper defines its rule no further than "thresholded posteriors" of what the gate reads.
    """
    quantity = reduction_name("the threshold rule")
    source, _ = open_scores(material)
    if not isinstance(source, MediaScores):
        return Comparison(quantity, THRESHOLD_RULE, ran=f"not run: bring {NEEDS['audio']}")
    line = getattr(frontline_named(locate(material, gate)).scorer, "encoder", gate)
    chosen, judged = (
        scored(source, line, names)
        for names in (development_of(material, source), primary_of(source.evaluated.recordings))
    )
    point = measure_points(
        line, chosen, judged, window=material.plan.window, targets=[0.93], shape=EpisodeShape()
    )[0]
    row = _point_row(quantity, THRESHOLD_RULE, point, heard_by(material, line))
    told = "our reading of the paper's two words, 'thresholded posteriors': one threshold, no head"
    return replace(row, remarks=f"{row.remarks}; {told}")


def _crossing_rows(
    material: Material, found: dict[str, list[OperatingPoint]], gate: str
) -> list[Comparison]:
    """Optical flow against the gate: ahead at high recall, behind below 90 %."""
    flow = next((line for line in found if split_name(line)[0] == "flow"), None)
    rows = []
    for target, paper in CROSSING.items():
        quantity = crossing_name(target)
        if flow is None:
            why = "not run: bring video, and add flow to --frontlines"
            rows.append(Comparison(quantity, paper, ran=why))
            continue
        theirs, ours = (point_at(found[line], target) for line in (flow, gate))
        gap = 100 * (theirs.counts.reduction - ours.counts.reduction)
        told = "the paper: they cross at 90 %" if target == 0.90 else ""
        ran = f"{describe_frontline(material, flow)} against {heard_by(material, gate)}"
        n = f"{len(ours.judged)} recordings"
        rows.append(Comparison(quantity, paper, gap, n, ran=ran, remarks=told))
    return rows


def _undercount_rows(point: OperatingPoint, n: str, ran: str) -> list[Comparison]:
    """What the deployed point emits, and what a duration account would charge."""
    counts = point.counts
    lasts = counts.kept / counts.episodes if counts.episodes else float("nan")
    values = (
        100 * counts.recall, counts.episodes, lasts, counts.calls, counts.charged,
        counts.undercount,
    )  # fmt: skip
    pairs = zip(UNDERCOUNT.items(), values, strict=True)
    return [Comparison(emitted_name(w), paper, o, n, ran=ran) for (w, paper), o in pairs]


def make_downsampling(material: Material) -> Made:
    """Looks where nothing was kept: with everything chosen on other recordings."""
    source, ran = open_scores(material)
    line = source.frontlines[0]
    development, judged = (
        scored(source, line, names)
        for names in (development_of(material, source), primary_of(source.evaluated.recordings))
    )
    tables = [
        downsample_table(development, judged, window=material.plan.window, unit=unit)
        for unit in ("time", "calls")
    ]
    n, rows = f"{len(judged)} recordings", []
    for unit, table in zip(("time", "calls"), tables, strict=True):
        place = 2 if unit == "time" else 3
        for cells in table.rows:
            alone, looking = float(cells[place]), float(cells[place + 4])
            gain = looking - alone if unit == "time" else alone - looking
            rows.append(
                Comparison(
                    f"dev recall {cells[0]}: {unit} saved by looking, points", None, gain, n,
                    ran=ran, remarks="the paper: inside seed variance",
                )
            )  # fmt: skip
    return Made(rows, tables)


def make_boundaries(material: Material) -> Made:
    """B-F1 of episodes and of as many even segments; boundaries and events of a sound network."""
    source, ran = open_scores(material)
    line = source.frontlines[0]
    points = operating_points(material)[line]
    rule = point_at(points, 0.93).rule
    judged = scored(source, line, primary_of(source.evaluated.recordings))
    total: dict[tuple[str, float], MatchCounts] = {}
    for one in judged if rule else ():
        found = find_episodes(one, rule) if rule else []
        pair = {"episodes": found, "even segments": even_segments(len(found), one.duration)}
        for name, by in compare_boundaries(one.actions, pair).items():
            for tolerance, counts in by.items():
                key = name, tolerance
                total[key] = total.get(key, MatchCounts()) + counts
    printed = {("episodes", 0.5): 22.8, ("even segments", 0.5): 17.4}
    rows = [
        Comparison(
            f"B-F1 at {tolerance:g} s, {name}, %", printed.get((name, tolerance)),
            100 * total[name, tolerance].f1,
            f"{total[name, tolerance].found} boundaries found", ran=ran,
            remarks="the paper's are a domain-tuned head's" if name == "episodes" else "",
        )
        for name in ("episodes", "even segments")
        for tolerance in TOLERANCES
        if (name, tolerance) in total
    ]  # fmt: skip
    return Made([*rows, *_network_rows(material)])


NETWORKS = {"beats": 422, "atst-frame": 444, "fpasst": 444, "slowfast": 2015}
"""Boundaries at 0.95 in the paper: 422 to 444 by AudioSet-Strong extractors, 2,015 by its own."""


def _network_rows(material: Material) -> list[Comparison]:
    """Boundaries a classifier of sounds places at 0.95, and its events against the annotated."""
    rows = []
    named = {split_name(line)[0]: line for line in material.plan.frontlines}
    for name, paper in NETWORKS.items():
        quantity = f"{name}: boundaries at {SURE:g}"
        if name not in named or not material.media:
            cure = (
                f"not run: bring its weights (earmark models add {name} FILE), --frontlines {name}"
            )
            rows.append(Comparison(quantity, paper, ran=cure))
            continue
        rows += _heard_segments(material, named[name], quantity, paper)
    return rows


def _heard_segments(material: Material, line: str, quantity: str, paper: float) -> list[Comparison]:
    encoder = replace(frontline_named(line).encoder, reads="logits", threshold=0.0)  # type: ignore[type-var]
    classes: tuple[str, ...] = encoder.classes  # type: ignore[attr-defined]
    count, matched = 0, MatchCounts()
    names = primary_of(material.split.judged)
    for name in names:
        heard = list(encoder(material.recording(name), meter=Meter()))
        count += len(segment_boundaries(segments(heard, classes, threshold=SURE)))
        if material.events and name in material.events.recordings:
            found = [
                Action(each.span.start, each.span.end, each.name)
                for each in segments(heard, classes, threshold=0.5)
            ]
            matched += match_events(material.events.recordings[name], found, collar=ONSET_COLLAR)
    ran, n = f"{encoder!r}; {material.plan.audio_is}", f"{len(names)} recordings"
    told = f"{len(classes)} classes"
    rows = [Comparison(quantity, paper, count, n, ran=ran, remarks=told)]
    if matched.reference:
        score = 100 * matched.f1
        rows.append(
            Comparison(f"{line}: event F1, collar 0.5 s, %", None, score, n, ran=ran, remarks=told)
        )
    return rows


def make_strip_figure(material: Material) -> Made:
    """Sixty seconds at the deployed operating point: the busiest of the first judged recording."""
    source, ran = open_scores(material)
    line, name = source.frontlines[0], next(iter(source.evaluated.recordings))
    points = operating_points(material)[line]
    rule = point_at(points, 0.93).rule
    case = source.tasks()[line, name]()
    design = BenchmarkDesign(rules=(RULE,), subject=RULE, window=material.plan.window)
    whole = Span(0.0, case.windows.duration)
    minute = busiest_minute(make_strip(case, design, span=whole).picks, whole.end)
    strip = make_strip(case, design, span=minute, scores=source.track(name, line))
    if rule:
        kept = find_episodes(scored(source, line, [name])[0], rule)
        shown = [span for span in kept if span.overlaps(strip.span)]
        strip = replace(strip, episodes=shown, threshold=rule.on, is_operating_point=True)
    if name in material.media:
        strip = add_media(strip, material.recording(name))
    caption = (
        "Sixty seconds at the deployed operating point (93 % dev recall), 25 % of the calls: the "
        "minute of the recording with the most of them."
    )
    rows = [Comparison("calls in the minute", None, len(strip.picks), name, ran=ran)]
    rows.append(Comparison("episodes in the minute", None, len(strip.episodes), name, ran=ran))
    return Made(rows, figures={"strip": (caption, lambda: draw_strip(strip))})
