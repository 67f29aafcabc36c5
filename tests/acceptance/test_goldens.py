"""What commands gave before the tree was rebuilt, and must give after it.

    pytest tests/acceptance/test_goldens.py                    # compare with goldens/
    pytest tests/acceptance/test_goldens.py --write-goldens    # write them anew

A change that is meant is listed in one of the tables below, so that every other difference is a
fault. Prose (reasons, notes, titles) is not compared.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest

import earmark_lab
from acceptance import golden_files
from acceptance.command_line import earmark, fresh_command
from acceptance.golden_recordings import Event, make_sound, write_video, write_wave

RENAMED: dict[str, str] = {}
"""Old name of a field by golden, to the new one: `{"forecast": "coverage"}` holds for all goldens,
`{"page:forecast": "coverage"}` for those whose name begins with `page`."""

DROPPED: set[str] = {"views:versions"}
"""Fields that no longer exist or are no longer compared (`versions` holds the times of files), by
their old names; `golden:field` as above."""

ADDED: set[str] = set()
"""Fields that are new; `golden:field` as above."""

REWORDED: dict[str, str] = {}
"""Old text to new text, in names and values: titles of chapters, values of a status; scoped by
golden as above."""

LABELS = {"quantity", "what it is", "title"}
"""Fields that say what a row is: kept for the reader, not compared."""

VOLATILE = {
    *("id", "folder", "root", "opened", "updated", "made", "when", "date", "version"),
    *("earmark", "custom_id", "identity", "latency", "screening", "bytes_read", "bytes_total"),
    *("size_bytes", "material", "annotations", "sound_events", "sound", "media", "epic"),
    *("began", "is_at_work", "preview", "versions"),
}
PROSE = {
    *("reason", "notes", "failure", "why_not", "remarks", "what ran", "ran", "bring", "made"),
    *("prompt", "told", "last_reason", "missed_note", "title"),
}

PAGE_PROSE = {"sure", "words", "actions", "overview", "size"}
"""In the data of the pages: sentences, and the size of files."""

RULES = (
    *("coverage", "separated", "rank", "aks", "bolt", "facility"),
    *("uniform", "strata", "random"),
)
BUDGETS = ("2%", "10%", "25%", "auto", "12")
PICK_FIELDS = ("window", "start", "end", "instant", "score", "rate", "expected")
DOUBTFUL_INSTANTS = {("P14_shift", 33)}
"""Windows whose two loudest moments differ by less than the cache keeps of the level (float16):
their instant depends on whether the recording was listened to just now."""

EVENTS: dict[str, list[Event]] = {
    "kitchen": [
        *((5, 3, "clatter"), (20, 1.5, "scrape"), (24, 2, "clatter"), (45, 6, "hum")),
        *((60, 4, "clatter"), (75, 1, "scrape"), (80, 3, "clatter")),
    ],
    "workshop": [
        *((2, 8, "scrape"), (12, 3, "clatter"), (17, 2, "clatter"), (22, 5, "scrape")),
        *((30, 1, "clatter"), (36, 6, "clatter"), (50, 20, "hum"), (71, 2, "clatter")),
        *((90, 9, "scrape"), (101, 3, "clatter"), (110, 2.5, "clatter")),
    ],
    "corridor": [(40, 30, "hum"), (97.5, 2, "clatter"), (141, 1, "scrape")],
}
SECONDS = {"kitchen": 90.0, "workshop": 118.5, "corridor": 150.0}

COMPOSITES = (
    *("resound/P03_26", "resound/P26_30", "resound/P32_07", "resound/P02_13", "resound/P11_21"),
    *("resound/P03_21", "resound/P04_26", "resound/P07_18", "shift/P14_shift", "shift/P31_shift"),
)
ANNOTATED = ("P32_07", "P02_13", "P11_21", "P04_26")

Check = Callable[[str, Any], None]


def listed_for(golden: str, names: set[str] | dict[str, str]) -> dict[str, str]:
    """The entries of a table that hold for a golden; a set gives names without a value."""
    pairs = names.items() if isinstance(names, dict) else ((name, "") for name in names)
    chosen = {}
    for name, new in pairs:
        scope, _, field = name.rpartition(":")
        if golden.startswith(scope):
            chosen[field] = new
    return chosen


def field(record: dict[str, Any], name: str, *, of: str = "select") -> Any:
    """The value of a field in what a golden is made of, under the name that it has now."""
    return record[listed_for(of, RENAMED).get(name, name)]


def reworded(golden: str, value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    for old, new in listed_for(golden, REWORDED).items():
        text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    return json.loads(text)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Check:
    """Compares a document with the golden of this name, or writes it."""

    def check(name: str, document: Any) -> None:
        now = golden_files.clean(document)
        if request.config.getoption("--write-goldens", default=False):
            golden_files.write(name, now)
            return
        before = golden_files.drop(golden_files.read(name), {*listed_for(name, DROPPED), *LABELS})
        old_names = {new: old for old, new in listed_for(name, RENAMED).items()}
        now = golden_files.drop(now, {*listed_for(name, ADDED), *LABELS})
        now = golden_files.rename(now, old_names)
        lines = list(golden_files.differences(reworded(name, before), now))
        shown = "\n".join(lines[: golden_files.MOST_LINES])
        assert not lines, f"{name}: {len(lines)} differences\n{shown}"

    return check


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden-cache")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three recordings by name: a video, a sound file, and a video in another container."""
    folder = tmp_path_factory.mktemp("golden-media")
    sound = {name: make_sound(SECONDS[name], EVENTS[name], seed=7) for name in EVENTS}
    return {
        "kitchen": write_video(folder / "kitchen.mp4", sound["kitchen"]),
        "workshop": write_wave(folder / "workshop.wav", sound["workshop"]),
        "corridor": write_video(folder / "corridor.mkv", sound["corridor"], codec="flac"),
    }


@pytest.fixture(scope="module")
def actions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events of the made recordings that are not hums, as annotations."""
    path = tmp_path_factory.mktemp("golden-actions") / "actions.csv"
    rows = [
        f"{name},{start},{start + length},{kind}"
        for name, events in EVENTS.items()
        for start, length, kind in events
        if kind != "hum"
    ]
    path.write_text("\n".join(["recording,start,end,label", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def lengths(actions: Path) -> Path:
    path = actions.with_name("lengths.csv")
    rows = [f"{name},{seconds}" for name, seconds in SECONDS.items()]
    path.write_text("\n".join(["recording,duration", *rows]) + "\n")
    return path


def run(*words: object) -> Any:
    outcome = earmark(*words)
    assert outcome.code == 0, outcome.err
    return outcome


def select(*words: object, cache: Path) -> list[dict[str, Any]]:
    """The recordings in what `select` prints."""
    return field(run("select", *words, "--cache", cache, "--format", "json").json, "recordings")


def pick_rows(recording: dict[str, Any]) -> list[list[Any]]:
    stem = Path(field(recording, "path")).stem
    rows = [[field(pick, name) for name in PICK_FIELDS] for pick in field(recording, "picks")]
    for row in rows:
        if (stem, row[0]) in DOUBTFUL_INSTANTS:
            row[PICK_FIELDS.index("instant")] = None
    return rows


def facts(recording: dict[str, Any]) -> dict[str, Any]:
    """What `select` prints about a recording, but for the picks, prose and what it read."""
    unwanted = {
        *VOLATILE,
        *PROSE,
        "path",
        "picks",
        "left_out",
        "access",
        "chapters",
        "chapter_starts",
    }
    return golden_files.drop(recording, unwanted)


def selections(path: Path, cache: Path) -> dict[str, Any]:
    """Every budget with the rule coverage, every rule at two budgets, and two frontlines."""

    def chosen(rule: str, frontline: str, budget: str) -> dict[str, Any]:
        options = ("--rule", rule, "--frontline", frontline, "--budget", budget)
        (recording,) = select(path, *options, cache=cache)
        return recording

    cases: dict[str, Any] = {}
    for budget in BUDGETS:
        recording = chosen("coverage", "gate", budget)
        cases[f"coverage gate {budget}"] = {**facts(recording), "picks": pick_rows(recording)}
    others = [(rule, "gate", "25%") for rule in RULES[1:]]
    others += [(rule, "gate", "12") for rule in RULES[1:]]
    others += [("full", "gate", "100%"), ("full", "energy", "100%"), ("rank", "gate", "2%")]
    others += [(rule, "energy", budget) for rule in ("coverage", "rank") for budget in BUDGETS[1:3]]
    for rule, frontline, budget in others:
        recording = chosen(rule, frontline, budget)
        cases[f"{rule} {frontline} {budget}"] = {
            "forecast": field(recording, "forecast"),
            "picks": pick_rows(recording),
        }
    return cases


@pytest.mark.parametrize("name", EVENTS)
def test_select(name: str, made: dict[str, Path], cache: Path, golden: Check) -> None:
    golden(f"select-{name}", selections(made[name], cache))


@pytest.mark.parametrize("name", COMPOSITES)
def test_select_composites(name: str, shared_data: Path, cache: Path, golden: Check) -> None:
    path = shared_data / f"{name}.opus"
    golden(f"select-{path.stem}", selections(path, cache))


ACROSS = [("coverage", "10%"), ("coverage", "12"), ("coverage", "auto"), ("rank", "15%")]


def selections_across(paths: list[Path], cache: Path) -> dict[str, Any]:
    cases = {}
    for rule, budget in ACROSS:
        options = ("--across", "--rule", rule, "--budget", budget, "--workers", "1")
        recordings = select(*paths, *options, cache=cache)
        cases[f"{rule} {budget}"] = {
            Path(field(recording, "path")).name: {
                "budget": field(recording, "budget"),
                "forecast": field(recording, "forecast"),
                "picks": pick_rows(recording),
            }
            for recording in recordings
        }
    return cases


def test_select_across(made: dict[str, Path], cache: Path, golden: Check) -> None:
    golden("select-across-made", selections_across(list(made.values()), cache))


def test_select_across_composites(shared_data: Path, cache: Path, golden: Check) -> None:
    paths = [shared_data / f"{name}.opus" for name in COMPOSITES]
    golden("select-across-composites", selections_across(paths, cache))


def forecast(paths: list[Path], cache: Path) -> Any:
    options = ("--coverage", "80%", "--cache", cache, "--workers", "1", "--format", "json")
    printed = run("plan", *paths, *options).json
    return golden_files.drop(printed, {*VOLATILE, *PROSE, "pays"})


def test_select_formats(made: dict[str, Path], cache: Path, golden: Check) -> None:
    words = ("select", made["workshop"], "--cache", cache, "--format")
    rows = csv.DictReader(io.StringIO(run(*words, "csv").out))
    documents = {
        "csv": [{column: number_or_text(cell) for column, cell in row.items()} for row in rows],
        "jsonl": run(*words, "jsonl").lines,
    }
    golden("select-formats", golden_files.drop(documents, {*VOLATILE, *PROSE}))


def test_select_explained(made: dict[str, Path], cache: Path, golden: Check) -> None:
    names = ("window", "start", "end", "score", "rate", "expected")
    left_out = {}
    for name, path in made.items():
        (recording,) = select(path, "--explain", cache=cache)
        windows = field(recording, "left_out")
        left_out[name] = [[field(window, name) for name in names] for window in windows]
    golden("select-explained", left_out)


EPISODES = {"plain": (), "recall": ("--recall", "95%"), "guarantee": ("--guarantee", "80%")}


@pytest.mark.parametrize("case", EPISODES)
def test_episodes(case: str, made: dict[str, Path], cache: Path, golden: Check) -> None:
    words = (*made.values(), *EPISODES[case], "--cache", cache, "--format", "json")
    printed = run("select", "--episodes", *words).json
    golden(f"episodes-{case}", golden_files.drop(printed, {*VOLATILE, *PROSE}))


def test_plan(made: dict[str, Path], cache: Path, golden: Check) -> None:
    cases = {name: forecast([path], cache) for name, path in made.items()}
    golden("plan-made", {**cases, "all": forecast(list(made.values()), cache)})


def test_plan_composites(shared_data: Path, cache: Path, golden: Check) -> None:
    paths = [shared_data / f"{name}.opus" for name in COMPOSITES]
    golden("plan-composites", forecast(paths, cache))


TRACKS, STEPS = 200, 16
RANDOM_RATE = 4_000


@pytest.fixture(scope="module")
def random_tracks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files whose level changes at random from window to window: a random score each."""
    folder = tmp_path_factory.mktemp("golden-tracks")
    generator = np.random.default_rng(27)
    carrier = generator.normal(0, 1, STEPS * 4 * RANDOM_RATE)
    for index in range(TRACKS):
        levels = generator.lognormal(6.0, 1.0, STEPS).repeat(4 * RANDOM_RATE)
        samples = np.clip(carrier * levels, -32_767, 32_767).astype(np.int16)
        write_wave(folder / f"track{index:03}.wav", samples, RANDOM_RATE)
    return folder


@pytest.mark.parametrize("rule", RULES)
def test_rules_on_random_scores(rule: str, random_tracks: Path, cache: Path, golden: Check) -> None:
    options = ("--rule", rule, "--frontline", "energy", "--budget", "25%", "--workers", "1")
    recordings = select(random_tracks, *options, cache=cache)
    chosen = {
        Path(field(recording, "path")).stem: [
            field(pick, "window") for pick in field(recording, "picks")
        ]
        for recording in recordings
    }
    golden(f"tracks-{rule}", chosen)


def tables(printed: Any) -> list[Any]:
    """The tables of an experiment, each a list of rows."""
    return [
        golden_files.drop(table, {*VOLATILE, *PROSE} - {"title"}) for table in printed["tables"]
    ]


def per_recording(text: str) -> dict[str, list[list[float]]]:
    """Calls, covered and strictly covered actions by budget, for each recording and rule."""
    grouped: dict[str, list[list[float]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        name = f"{row['recording']} {row['frontline']} {row['rule']}"
        numbers = [float(row[column]) for column in ("budget", "calls", "covered", "strict")]
        grouped.setdefault(name, []).append(numbers)
    return grouped


def evaluation(*words: object, cache: Path) -> dict[str, Any]:
    words = ("lab", "evaluate", *words, "--cache", cache, "--format")
    rows = run(*words, "csv").out
    return {"recordings": per_recording(rows), "tables": tables(run(*words, "json").json)}


def test_evaluate(actions: Path, made: dict[str, Path], cache: Path, golden: Check) -> None:
    media = [word for path in made.values() for word in ("--media", path)]
    both = evaluation(actions, *media, "--frontlines", "gate,energy", cache=cache)
    golden("evaluate-made", both)


def test_evaluate_by_cutting_to_whole_calls(
    actions: Path, made: dict[str, Path], cache: Path, golden: Check
) -> None:
    """Eq. 3 of the paper cuts, where its tables round; only the experiment in Python can."""
    result = earmark_lab.evaluate(
        actions,
        media=[str(path) for path in made.values()],
        rounding="floor",
        rules=["uniform", "separated", "oracle"],
        subject="separated",
        cache=cache,
    )
    rows, printed = per_recording(result.to_csv()), tables(result.to_json())
    golden("evaluate-floor", {"recordings": rows, "tables": printed})


def test_evaluate_episodes(
    actions: Path, made: dict[str, Path], cache: Path, golden: Check
) -> None:
    media = [word for path in made.values() for word in ("--media", path)]
    words = ("--dev", "workshop", "--recordings", "kitchen,corridor", "--rules", "uniform,coverage")
    golden("evaluate-points", evaluation(actions, *media, *words, cache=cache))


def test_evaluate_simulated_answers(
    actions: Path, lengths: Path, cache: Path, golden: Check
) -> None:
    words = (actions, "--durations", lengths, "--answers", "noisy")
    golden("evaluate-answers", evaluation(*words, cache=cache))


def test_evaluate_composites(shared_data: Path, cache: Path, golden: Check) -> None:
    spans = shared_data / "epic" / "EPIC_100_validation.csv"
    media = [
        word for name in ANNOTATED for word in ("--media", shared_data / "resound" / f"{name}.opus")
    ]
    words = (spans, *media, "--recordings", ",".join(ANNOTATED))
    golden("evaluate-resound", evaluation(*words, cache=cache))


def test_evaluate_sparse_composites(shared_data: Path, cache: Path, golden: Check) -> None:
    names = ("P14_shift", "P31_shift")
    media = [word for name in names for word in ("--media", shared_data / "shift" / f"{name}.opus")]
    words = (shared_data / "shift" / "actions.csv", *media, "--recordings", ",".join(names))
    golden("evaluate-shift", evaluation(*words, cache=cache))


def test_occupancy(actions: Path, lengths: Path, golden: Check) -> None:
    words = ("lab", "occupancy", actions, "--durations", lengths, "--format", "json")
    golden("occupancy-made", tables(run(*words).json))


def test_occupancy_of_data_sets(shared_data: Path, golden: Check) -> None:
    epic = shared_data / "epic"
    sets = [
        f"EPIC={epic / 'EPIC_100_validation.csv'}@paper",
        f"EPIC all={epic / 'EPIC_100_validation.csv'}",
        f"GoalStep={shared_data / 'goalstep' / 'goalstep_valid.json'}",
        f"CaptainCook4D={shared_data / 'captaincook4d' / 'step_annotations.csv'}",
        f"STARSS22={shared_data / 'starss22' / 'metadata_dev'}",
        f"shift={shared_data / 'shift' / 'actions.csv'}",
    ]
    words = ("lab", "occupancy", *sets, "--windows", "2,4", "--format", "json")
    golden("occupancy-data-sets", tables(run(*words).json))


def test_cost(
    actions: Path,
    made: dict[str, Path],
    cache: Path,
    tmp_path: Path,
    golden: Check,
) -> None:
    results = tmp_path / "per_recording.csv"
    media = ("--media", made["workshop"], "--recordings", "workshop", "--cache", cache)
    results.write_text(run("lab", "evaluate", actions, *media, "--format", "csv").out)
    naming = tmp_path / "naming.csv"
    naming.write_text("tokens,accuracy\n256,31\n1024,44\n2048,46\n")
    other = ("--hours", 5000, "--call", 0.4, "--gpu-hour", 1.8, "--set", "overhead=0.1")
    cases = {
        "paper": (),
        "other": (*other, "--set", "window=8", "--budgets", "10,25"),
        "coverage": ("--results", results),
        "naming": ("--naming", naming),
    }
    printed = {
        name: tables(run("lab", "cost", *words, "--format", "json").json)
        for name, words in cases.items()
    }
    golden("cost", printed)


ANNOTATION_TABLES = (
    *("methods", "occupancy", "sets", "blind", "windows", "cost", "settings", "paired"),
    *("coverage", "savings", "correlation", "recordings", "window-gains"),
    *("operating-points", "downsampling", "strip"),
)


@pytest.fixture(scope="module")
def reproduction(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Any]]:
    """Every table of the paper that annotations give, by its name."""
    out = tmp_path_factory.mktemp("reproduction")
    words = ("--epic", shared_data / "epic", "--out", out, "--format", "json")
    printed = run("lab", "reproduce", *ANNOTATION_TABLES, *words).json
    by_name: dict[str, list[Any]] = {}
    for table in tables(printed):
        by_name.setdefault(table["title"].partition(":")[0], []).append(table)
    return by_name


@pytest.mark.parametrize("table", ANNOTATION_TABLES)
def test_reproduce(table: str, reproduction: dict[str, list[Any]], golden: Check) -> None:
    if table == "settings":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    golden(f"reproduce-{table}", reproduction[table])


@pytest.fixture(scope="module")
def captioned(made: dict[str, Path], cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over two videos whose answers come from a file; one window has no answer."""
    folder = tmp_path_factory.mktemp("golden-runs")
    videos = [made["kitchen"], made["corridor"]]
    replay = folder / "answers.jsonl"
    replay.write_text('{"recording": "none", "start": 0, "end": 4, "text": "nothing"}\n')
    options = ("--model", f"replay:{replay}", "--budget", "25%", "--cache", cache, "--workers", "1")
    options = (*options, "--no-sounds", "--no-pictures")
    no_models = {"EARMARK_CHECKPOINTS": str(folder / "no-models")}
    # A first run, all of whose calls fail, tells the ids of the recordings.
    earmark("caption", *videos, *options, "--run", folder / "unanswered", env=no_models)
    picks = run("export", folder / "unanswered", "--to", "jsonl").lines
    answers = [
        {
            **{name: field(pick, name, of="export") for name in ("recording", "start", "end")},
            "text": f"The wearer washes cup {field(pick, 'window', of='export')} & dries it.",
            "model": "tiny",
            "prompt_tokens": 100 + field(pick, "window", of="export"),
            "completion_tokens": 9,
        }
        for pick in picks[1:]
    ]
    replay.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    tuesday = folder / "archive" / "tuesday"
    earmark("caption", *videos, *options, "--run", tuesday, env=no_models)
    return tuesday


@contextlib.contextmanager
def serving(archive: Path) -> Iterator[httpx.Client]:
    """A client of `earmark serve`."""
    command = fresh_command("serve", archive, "--port", "0", "--no-token")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = re.search(r"http://\S+", process.stdout.readline())
            assert url is not None
            with httpx.Client(base_url=url[0].rstrip("/") + "/api", timeout=30) as client:
                yield client
        finally:
            process.terminate()


CORRECTIONS = [
    {"pick": 1, "verdict": "right", "author": "ann"},
    {"pick": 2, "verdict": "reworded", "author": "ann", "text": "Stirs."},
    {"start": 32, "end": 33, "verdict": "missed", "author": "bob", "text": "Sneezes."},
]
"""Of the kitchen: its second and third pick, and what no window shows."""


def corrections(captioned: Path) -> Iterator[dict[str, Any]]:
    picks = run("export", captioned, "--to", "jsonl").lines
    spans = sorted(
        (field(pick, "start", of="export"), field(pick, "end", of="export"))
        for pick in picks
        if "kitchen" in json.dumps(pick)
    )
    for mark in CORRECTIONS:
        place = mark.get("pick")
        rest = {name: value for name, value in mark.items() if name != "pick"}
        span = {} if place is None else dict(zip(("start", "end"), spans[place], strict=True))
        yield {**rest, **span}


@pytest.fixture(scope="module")
def views(captioned: Path) -> dict[str, Any]:
    """What the server shows of the run, after two corrections."""
    pytest.importorskip("fastapi", reason="earmark[server] is not installed")
    gathered: dict[str, Any] = {}
    with serving(captioned.parent) as client:

        def view(name: str, address: str, **query: str) -> Any:
            gathered[name] = client.get(address, params=query).raise_for_status().json()
            return gathered[name]

        address = f"/runs/{client.get('/runs').json()[0]['id']}"
        rows = client.get(f"{address}/recordings").json()["rows"]
        for row in sorted((row["row"] for row in rows), key=lambda row: row["name"]):
            name, recording = row["name"], f"{address}/recordings/{row['id']}"
            for mark in corrections(captioned) if name == "kitchen.mp4" else ():
                client.post(f"{recording}/corrections", json=mark).raise_for_status()
            view(f"recording {name}", recording)
            view(f"timeline {name}", f"{recording}/timeline")
            view(f"picks {name}", f"{recording}/picks")
            view(f"corrections {name}", f"{recording}/corrections")
        view("runs", "/runs")
        view("run", address)
        view("recordings", f"{address}/recordings")
        hits = view("search", f"{address}/search", words="cup")
        hits.sort(key=lambda hit: (hit["name"], hit["start"]))  # equal ranks stand in any order
        view("sounds", f"{address}/sounds")
    return gathered


def test_served_views(views: dict[str, Any], golden: Check) -> None:
    unwanted = {*VOLATILE, *PROSE, *PAGE_PROSE}
    golden(
        "views",
        {
            name: golden_files.leaves(golden_files.drop(view, unwanted))
            for name, view in views.items()
        },
    )


def test_report_page(captioned: Path, views: dict[str, Any], golden: Check, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("show", captioned, "--page", "--out", page)
    (data,) = re.findall(
        r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL
    )
    golden(
        "page",
        golden_files.leaves(golden_files.drop(json.loads(data), {*VOLATILE, *PROSE, *PAGE_PROSE})),
    )


def test_run_list(captioned: Path, views: dict[str, Any], golden: Check) -> None:
    printed = run("run", "list", captioned.parent, "--format", "json").json
    golden("run-list", golden_files.leaves(golden_files.drop(printed, {*VOLATILE, *PROSE, "run"})))


def test_summary(captioned: Path, views: dict[str, Any], golden: Check) -> None:
    printed = run("show", captioned, "--format", "json").json
    golden("show", golden_files.leaves(golden_files.drop(printed, {*VOLATILE, *PROSE, "run"})))


TEXT_FORMATS = ("edl", "srt", "vtt", "fcpxml", "premiere")
RECORD_FORMATS = ("jsonl", "csv", "parquet", "corrections", "otio", "labelstudio", "batch")


LIBRARIES = {
    "parquet": "pyarrow",
    **dict.fromkeys(("otio", "fcpxml", "premiere"), "opentimelineio"),
}
"""What a format needs."""


def exported(captioned: Path, name: str, out: Path) -> dict[str, bytes]:
    """The files that a format writes, by name."""
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    model = ("--model", "tiny") if name == "batch" else ()
    run("export", captioned, "--to", name, "--out", out, *model)
    if out.is_file():
        return {name: out.read_bytes()}
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_text_exports(
    name: str, captioned: Path, views: dict[str, Any], tmp_path: Path, golden: Check
) -> None:
    picks = run("export", captioned, "--to", "jsonl").lines
    reasons = [field(pick, "reason", of="export") for pick in picks]
    texts = {}
    for file, content in exported(captioned, name, tmp_path / "out").items():
        text = content.decode()
        for reason in sorted(reasons, key=len, reverse=True):
            text = text.replace(reason, "<reason>")
        # The Final Cut adapter names the format only if ffprobe is installed.
        texts[file] = re.sub(r' name="FFVideoFormat[^"]*"', ' name=""', text).splitlines()
    golden(f"export-{name}", texts)


def number_or_text(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def records(name: str, content: bytes) -> Any:
    """What a file holds, parsed."""
    if name == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        return parquet.read_table(io.BytesIO(content)).to_pylist()
    text = content.decode()
    if name == "csv":
        rows = csv.DictReader(io.StringIO(text))
        return [{column: number_or_text(cell) for column, cell in row.items()} for row in rows]
    if name in {"jsonl", "corrections", "batch"}:
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


@pytest.mark.parametrize("name", RECORD_FORMATS)
def test_record_exports(
    name: str, captioned: Path, views: dict[str, Any], tmp_path: Path, golden: Check
) -> None:
    (content,) = exported(captioned, name, tmp_path / "out").values()
    golden(f"export-{name}", golden_files.drop(records(name, content), {*VOLATILE, *PROSE}))


def chapters_of(path: Path) -> list[list[Any]]:
    """Start, end and title of every chapter."""
    with av.open(str(path)) as container:
        return [
            [
                float(chapter["start"] * chapter["time_base"]),
                float(chapter["end"] * chapter["time_base"]),
                chapter["metadata"].get("title"),
            ]
            for chapter in container.chapters()
        ]


def test_highlights(captioned: Path, views: dict[str, Any], tmp_path: Path, golden: Check) -> None:
    run("export", captioned, "--to", "highlights", "--out", tmp_path / "day.mp4")
    golden("export-highlights", chapters_of(tmp_path / "day.mp4"))


def test_bundle(captioned: Path, views: dict[str, Any], tmp_path: Path, golden: Check) -> None:
    run("export", captioned, "--to", "bundle", "--out", tmp_path / "day.zip")
    with zipfile.ZipFile(tmp_path / "day.zip") as bundle:
        golden("export-bundle", sorted(bundle.namelist()))
