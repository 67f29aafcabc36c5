"""`earmark caption`: the main job."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from earmark.captioning import Limits, Prompt
from earmark.cli import archive_options, options
from earmark.cli.captioner_options import Wanted
from earmark.cli.checkpoints import model_store
from earmark.cli.console import Format, emit_json, err, out, warn
from earmark.cli.formatting import as_share, as_size, counted
from earmark.evidence.sound_names import SoundNamer
from earmark.features.yamnet import YAMNet
from earmark.gate.score_cache import ScoreCache
from earmark.ledger import Run, Totals
from earmark.pipeline.caption import Captioned, Preview, preview
from earmark.pipeline.caption import caption as caption_windows
from earmark.pipeline.job import Job
from earmark.pipeline.question import Ask
from earmark.pipeline.triage import make_plan

ADD_A_MODEL = (
    "no model was asked, so captions are marked as not asked; to add them run the same command "
    "with --gguf MODEL.gguf (the shortest way), or --vlm URL --model NAME"
)


def caption(
    paths: options.Paths,
    budget: options.BudgetText = "25%",
    run: Annotated[
        Path | None,
        typer.Option(
            help="The run's folder; the same one again continues it.", show_default="runs/NAME"
        ),
    ] = None,
    vlm: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name on that server.")] = None,
    gguf: Annotated[Path | None, typer.Option(help="A GGUF file to run here.")] = None,
    mmproj: Annotated[Path | None, typer.Option(help="Its mmproj file; found beside it.")] = None,
    transformers: Annotated[
        str | None, typer.Option(help="A Qwen3-VL checkpoint to run here with PyTorch.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(help="Answers from a JSONL file.")] = None,
    frames: Annotated[
        int, typer.Option(help="Pictures a call: 1 is the highest-scoring instant.")
    ] = 1,
    tokens: Annotated[int, typer.Option(help="Visual tokens a call, of 32x32 pixels.")] = 1024,
    answer_tokens: Annotated[int, typer.Option(help="The longest answer.")] = 256,
    temperature: Annotated[
        str, typer.Option(help="A number, or `server` for models that accept none.")
    ] = "0",
    prompt: Annotated[Path | None, typer.Option(help="A prompt template.")] = None,
    schema: Annotated[Path | None, typer.Option(help="A JSON schema for the answers.")] = None,
    sounds: Annotated[
        bool | None,
        typer.Option(
            "--sounds/--no-sounds",
            help="Name the sounds of each window with YAMNet and tell the model.",
            show_default="if `earmark models get yamnet` was run",
        ),
    ] = None,
    rule: options.RuleName = "coverage",
    frontline: options.FrontlineName = "auto",
    window: options.WindowLength = 4.0,
    across: options.Across = False,
    audio_track: options.AudioTrack = 0,
    concurrency: Annotated[int, typer.Option(help="Calls in flight at once.")] = 8,
    timeout: Annotated[float, typer.Option(help="Seconds one attempt may take.")] = 120.0,
    retries: Annotated[int, typer.Option(help="Further attempts after 429, 5xx, time-outs.")] = 4,
    max_calls: Annotated[int | None, typer.Option(help="Stop after so many calls.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop before so many tokens.")] = None,
    max_spend: Annotated[float | None, typer.Option(help="Stop before so much money.")] = None,
    input_price: Annotated[float, typer.Option(help="Money a million tokens in cost.")] = 0.0,
    output_price: Annotated[float, typer.Option(help="Money a million tokens out cost.")] = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask nothing; say the cost.")] = False,
    format: Annotated[Format, typer.Option(help="How to print the outcome.")] = Format.table,
    cache: options.CacheFolder = None,
    no_cache: options.NoCache = False,
    engine: archive_options.EngineName = archive_options.BackendKind.local,
    workers: archive_options.Workers = None,
    address: archive_options.Address = None,
    shard: archive_options.ShardText = None,
    retry_failed: archive_options.RetryFailed = False,
    log: archive_options.Log = archive_options.LogKind.bar,
    metrics_port: archive_options.MetricsPort = None,
) -> None:
    """Listen, choose, and caption the chosen windows, one call each.

    Every answer is kept as it arrives. Killed at any moment, the same command goes on where it
    stopped and asks for no kept answer again; a larger budget asks only the new windows. The last
    line says where the report is.

    For example:

      earmark caption shift.mp4 --budget 25% --vlm http://localhost:8000/v1 --model Qwen3-VL-8B

      earmark caption archive/ --budget 2000 --across --gguf Qwen3-VL-8B.gguf

      earmark caption shift.mp4 --dry-run --input-price 0.15 --output-price 0.6

      earmark caption s3://bucket/cams/ --budget 20% --across --engine ray --address auto
    """
    wanted = Wanted(vlm, model, gguf, mmproj, transformers, replay)
    job = Job(
        plan=make_plan(
            budget=budget,
            rule=rule,
            frontline=frontline,
            window=window,
            across=across,
            audio_track=audio_track,
        ),
        captioner=wanted.captioner(concurrency=concurrency, tokens=tokens + answer_tokens),
        ask=Ask(
            Prompt.load(*([prompt] if prompt else []), schema=schema),
            frames,
            tokens,
            answer_tokens,
            warmth(temperature),
        ),
        limits=Limits(
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            max_calls=max_calls,
            max_tokens=max_tokens,
            max_spend=max_spend,
            input_price=input_price,
            output_price=output_price,
        ),
        cache=options.cache_at(cache, no_cache),
        namer=namer_for(sounds, options.cache_at(cache, no_cache)),
    )
    scale = archive_options.Scaling(engine, workers, address, shard, log, metrics_port)
    folder = run or Path("runs") / scale.run_name(paths)
    sources = scale.sources(paths, budget=job.plan.budget, across=across)
    if retry_failed:
        sources = archive_options.only_failed(sources, folder, across=across)
    if not across and any(source.weight != 1 for source in sources):
        warn("the weights of the manifest play a part only with --across: no call moves without it")
    with scale.at_work(sources, job) as hands:
        assert hands.job is not None
        if dry_run:
            cost = preview(sources, hands.job, folder=folder, ears=hands.ears)
        else:
            done = caption_windows(
                sources,
                hands.job,
                folder=folder,
                step=hands.step,
                ears=hands.ears,
                look=hands.look,
            )
    if dry_run:
        show_preview(cost, format)
        return
    show(done, format)
    if done.missed or done.tally.failed or done.tally.stopped:
        raise typer.Exit(1)


def warmth(text: str) -> float | None:
    """The temperature written as `text`; None for the server's own."""
    if text == "server":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--temperature {text} is neither a number nor `server`") from None


def namer_for(wanted: bool | None, cache: ScoreCache | None) -> SoundNamer | None:
    """Who names sounds: nobody unless asked for, or unless all it takes is at hand."""
    at_hand = model_store().state("yamnet") == "here" and find_spec("ai_edge_litert") is not None
    if wanted is False or (wanted is None and not at_hand):
        return None
    return SoundNamer(YAMNet(weights=model_store().find("yamnet")), cache.folder if cache else None)


def show_preview(cost: Preview, format: Format) -> None:
    """What the command would ask, and what that costs at most."""
    if format is Format.json:
        emit_json(asdict(cost))
        return
    out.print(
        f"{cost.calls} calls to make ({cost.kept} answers are kept already) of {cost.windows} "
        f"windows; at most {cost.tokens:,} tokens, {cost.money:.4g} in money"
    )


def show(done: Captioned, format: Format) -> None:
    """What the run has come to; the last line is where to look."""
    totals, tally = done.totals, done.tally
    if format is Format.json:
        plain = {"run": str(done.folder), "report": str(done.page), "missed": done.missed}
        emit_json(plain | {"totals": asdict(totals), "this_run": asdict(tally)})
        return
    if totals.recordings:
        tell_totals(totals)
    elif not done.missed:
        warn("there is no recording to work on")
    tell_trouble(done)
    if totals.recordings:
        out.print(f"report: {done.page}")
    if totals.picks and not totals.answered and not totals.failed and not tally.stopped:
        out.print(ADD_A_MODEL)


def tell_totals(totals: Totals) -> None:
    """What was asked, decoded and read so far, and what it cost."""
    out.print(
        f"{totals.answered} of {totals.picks} picks captioned, of {totals.windows} windows; "
        f"{totals.failed} failed; {totals.frames_decoded} of {totals.frame_count} frames decoded, "
        f"{as_size(totals.bytes_read)} of {as_size(totals.size_bytes)} read"
    )
    if totals.expected:
        out.print(f"expected coverage {as_share(totals.touched / totals.expected)}")
    if totals.prompt_tokens:
        spent = f", {totals.spend:.4g} in money" if totals.spend else ""
        out.print(f"{totals.prompt_tokens:,} tokens in, {totals.completion_tokens:,} out{spent}")


def tell_trouble(done: Captioned) -> None:
    """What did not go well, a line each."""
    tally = done.tally
    if done.interrupted and done.totals.interrupted:  # making tags again costs nothing
        calls = counted(done.interrupted, "call")
        warn(f"{calls} in flight when the last run ended may have been asked twice")
    if done.missed:
        tell_missed(done.folder)
    if tally.failed:
        warn(f"{counted(tally.failed, 'call')} failed, the last: {tally.last_reason}")
    if tally.stopped:
        warn(f"stopped: {tally.stopped}; the same command goes on")


MOST_TOLD = 20
"""Failed recordings listed on the terminal; the report has them all."""


def tell_missed(folder: Path) -> None:
    """Why recordings could not be done, a line each."""
    with Run.open(folder) as run:
        every = run.failed_recordings()
    for missed in every[:MOST_TOLD]:
        err.print(f"earmark: {missed.reason}", style="red")
    if len(every) > MOST_TOLD:
        warn(f"{len(every) - MOST_TOLD} more recordings could not be done; see the report")
