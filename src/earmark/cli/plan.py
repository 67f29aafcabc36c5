"""`earmark plan`: forecasts coverage and cost of budgets before any call is made."""

from __future__ import annotations

from typing import Annotated

import typer

from earmark.captioning.limits import CURRENCY
from earmark.cli import options
from earmark.gate.forecast_error import UNLIKE, as_count, as_range, as_share
from earmark.pipeline.plan import plan as plan_run
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import Format, emit_json, out, print_table, warn
from earmark.reporting.text_format import counted, format_notes
from earmark.selection.cost_forecast import CallCost, Forecast, Rung
from earmark.timeline import format_clock


@options.shows_progress
@options.takes_plan(options.LISTENING | options.BACKEND)
def plan(
    plan: Plan,
    coverage: Annotated[
        str | None, typer.Option(help="Also print how many calls this coverage takes, such as 90%.")
    ] = None,
    gpu_seconds: Annotated[
        float, typer.Option(help="GPU-seconds per call; the default is the paper's.")
    ] = CallCost().gpu_seconds,
    money: Annotated[float, typer.Option(help=f"Price of one call {CURRENCY}.")] = CallCost().money,
    format: options.OutcomeAs = Format.table,
    *,
    watch: options.Watch,
) -> None:
    """Print the expected coverage, GPU-hours and cost of several budgets.

    Recordings are listened to; no model is called. The time that listening took
    is compared with the GPU time of a full scan: the last line says up to which
    share of the calls triage pays.

    For example:

      earmark plan shift.mp4

      earmark plan archive/ --coverage 90% --gpu-seconds 0.5 --money 0.0002
    """
    with watch() as progress:
        forecast = plan_run(
            plan=plan,
            coverage=None if coverage is None else parse_share(coverage),
            cost=CallCost(gpu_seconds=gpu_seconds, money=money),
            progress=progress,
        ).forecast
    assert forecast is not None, "it was asked for"
    if format is Format.json:
        emit_json(forecast.to_json())
    elif forecast.recordings:
        show(forecast)
    for line in format_notes((one.path, one.note) for one in forecast.notes):
        warn(line)
    options.end_with(failed.error for failed in forecast.failures)


def parse_share(text: str) -> float:
    """A share written as `90%` or `0.9`; `ValueError` if it is not above 0 and at most 1.

    >>> parse_share("90%")
    0.9
    """
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        raise ValueError(f"{text!r} is not a share: write 90% or 0.9") from None
    share = number / 100 if text.strip().endswith("%") else number
    if not 0 < share <= 1:
        raise ValueError(f"a share lies above 0% and up to 100%, not {text}")
    return share


def show(forecast: Forecast) -> None:
    """Print the forecast as a table, and below it the cost of listening."""
    out.print(
        f"{counted(forecast.recordings, 'recording')}, {format_clock(forecast.duration)}, "
        f"{counted(forecast.windows, 'window')} of {forecast.window:g} s; "
        f"frontline {forecast.frontline}",
        style="bold",
    )
    if forecast.actions is not None:
        out.print(as_count(forecast.actions, forecast.actions_range))
    columns = ("calls", "of all", "expected coverage", "range", "GPU-hours", "cost", "pays")
    print_table(columns, map(cells, forecast.rungs))
    if first := next((rung.range for rung in forecast.rungs if rung.range), None):
        held = f"held {100 * first.confidence:.0f} % of the recordings it was measured on"
        out.print(f"The range {f'says nothing: {UNLIKE}' if first.is_unlike else held}.")
    if forecast.recordings > 1:
        out.print("Each budget is one over all recordings, as `--across` spends it.")
    if forecast.goal:
        rung = forecast.goal
        out.print(
            f"\n{as_range(rung.coverage, rung.range)} coverage is expected from "
            f"{counted(rung.calls, 'call')} "
            f"({as_share(rung.share)}): {rung.gpu_hours:.3g} GPU-hours, {rung.money:.3g} {CURRENCY}"
        )
    screening = forecast.screening
    out.print(
        f"\nThe cost is that of --money a call {CURRENCY}. "
        f"Listening took {screening.seconds:.1f} s, {as_share(screening.share)} of a full scan's "
        f"{screening.full_scan_seconds:.0f} GPU-seconds: triage pays up to "
        f"{as_share(screening.break_even)} of the calls."
    )
    if screening.measured_now < forecast.recordings:
        kept = forecast.recordings - screening.measured_now
        out.print(f"({counted(kept, 'recording')} heard earlier, and timed then.)")


def cells(rung: Rung) -> tuple[str, ...]:
    """The cells of one row of the table; a dash if the range was not measured."""
    span = rung.range
    return (
        str(rung.calls),
        as_share(rung.share),
        as_share(rung.coverage),
        f"{100 * span.low:.0f}–{100 * span.high:.0f} %" if span else "–",
        f"{rung.gpu_hours:.3g}",
        f"{rung.money:.3g}",
        "yes" if rung.pays else "no",
    )
