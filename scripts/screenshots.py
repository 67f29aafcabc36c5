"""Makes the pictures of the documentation: the page of a run and `earmark serve`, in Chromium.

    python scripts/screenshots.py          # or: make screenshots
    python scripts/screenshots.py --out build/pictures

Scenes are filmed on the spot and captioned from their scripts, so that the same pictures come out
again; the models that name sounds are used where they are here.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import av
import httpx
from PIL import Image

import earmark
from earmark.media import open_recording
from earmark_lab.demo import Script, write_scene

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chromium import CHROMIUM, DRIVER, chromium, look
from report_runs import CAPTIONS
from served import TOKEN, run_named, serving

DOCS = Path(__file__).resolve().parents[1] / "docs"
NAMES = ("monday bench", "monday stairs", "tuesday bench", "tuesday sink", "wednesday shelf")
FIRST = datetime(2026, 5, 4, 8, 12, tzinfo=UTC)
COLOURS = 128
"""Of a picture: enough for pages, and small."""
STILL = (
    "document.querySelectorAll('.pick').length && document.querySelector('video').readyState > 1"
    " && !document.querySelector('video').seeking"
)
"""A recording is shown, and its video stands where it should."""


def record(folder: Path, made: Path) -> Path:
    """Scenes of one to three minutes in `folder`, and runs over all and one; the page of that."""
    lines = []
    for seed, name in enumerate(NAMES):
        script = Script.compose(seed=seed, duration=70.0 + 25 * seed)
        write_scene(made / "scene.mp4", script, size=(640, 360), fps=10)
        path = folder / f"{name}.mp4"
        date(made / "scene.mp4", path, FIRST + timedelta(hours=7.3 * seed))
        key = open_recording(path).key
        for start in range(0, int(script.duration) + 4, 4):
            doing = [one for one in script.actions if one.start < start + 4 and start < one.end]
            text = CAPTIONS[doing[0].label] if doing else "Nobody works: the bench lies still."
            end = min(start + 4.0, script.duration)
            lines += [{"recording": key, "start": float(start), "end": end, "text": text}]
    (made / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    choices: Any = {"model": f"replay:{made / 'answers.jsonl'}#tiny-vl", "cache": made / "cache"}
    earmark.caption([path], run=made / "wednesday", budget="30%", sounds=None, **choices)
    choices |= {"pictures": False}  # what is read and seen is on the page of the one
    earmark.caption([folder], run=folder / "week 19", budget="30%", sounds=None, **choices)
    return made / "wednesday" / "report.html"


def date(given: Path, path: Path, began: datetime) -> None:
    """Copy a video, and let it say when it began."""
    with av.open(str(given)) as one, av.open(str(path), "w") as other:
        other.metadata["creation_time"] = began.isoformat()
        streams = {each.index: other.add_stream_from_template(each) for each in one.streams}
        for packet in one.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                other.mux(packet)


def correct(client: httpx.Client, place: str) -> None:
    """What two people say of a recording."""
    picks = client.get(f"{place}/picks").json()["picks"][4:]
    said = [
        ("Ada", "right", ""),
        ("Bo", "wrong", ""),
        ("Ada", "reworded", "A mallet, not a hammer."),
    ]
    for (author, verdict, text), pick in zip(said, picks, strict=False):
        span = {name: pick[name] for name in ("start", "end")}
        wish = {**span, "verdict": verdict, "author": author, "text": text}
        client.post(f"{place}/corrections", json=wish).raise_for_status()
    missed = {"start": 41.0, "end": 47.5, "verdict": "missed", "author": "Bo", "text": "a drawer"}
    client.post(f"{place}/corrections", json=missed).raise_for_status()


def take(driver: Any, address: str, path: Path, ready: str, **window: Any) -> None:
    """A picture of the page at `address` once `ready` holds in it."""
    from selenium.webdriver.support.ui import WebDriverWait

    look(driver, **window)
    driver.get("about:blank")
    driver.get(address)
    WebDriverWait(driver, 300).until(lambda _: driver.execute_script(f"return {ready}"))
    driver.execute_async_script("setTimeout(arguments[0], 1500)")  # pictures, curves, the video
    with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


def take_all(folder: Path, page: Path, out: Path, profile: Path) -> None:
    """Every picture, of the runs in `folder` and of the `page` of one, into `out`."""
    wide = {"width": 1280, "height": 960}
    with serving(folder) as client, chromium(profile) as driver:
        run, base = run_named(client, "week 19"), str(client.base_url)
        rows = client.get(f"/api/runs/{run}/recordings", params={"sort": "answered"}).json()["rows"]
        place = f"/api/runs/{run}/recordings/{rows[-1]['row']['id']}"
        picks = client.get(f"{place}/picks", params={"words": "nail"}).json()["picks"]
        moment = picks[0]["start"]
        driver.get(f"{base}/?token={TOKEN}")
        one = f"{base}/run/{run}/{rows[-1]['row']['id']}#t={moment + 1:.1f}"
        take(driver, one, out / "recording.png", STILL, **wide)
        correct(client, place)
        said = f"{STILL} && document.querySelectorAll('.verdict').length > 2"
        take(driver, one, out / "corrections.png", said, **wide, scheme="dark")
        take(driver, one, out / "phone.png", STILL, width=390, height=844)
        shown = "document.querySelector('.day .look img')?.naturalWidth"
        take(driver, f"{base}/run/{run}", out / "day.png", shown, **wide)
        strips = (
            f"{shown} && document.querySelectorAll('.row-name').length"
            " && (document.querySelector('.list-title').scrollIntoView(), true)"
        )
        take(driver, f"{base}/run/{run}", out / "archive.png", strips, width=1280, height=720)
        done = "document.querySelector('.look img')?.naturalWidth"
        take(driver, page.as_uri(), out / "report.png", done, width=1200, height=1900)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder of the pictures")
    options = parser.parse_args()
    if not (CHROMIUM and DRIVER):
        sys.exit("Chromium is not here: `make browser` gets it where it can")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        made, folder = Path(scratch), Path(scratch) / "archive"
        folder.mkdir()
        take_all(folder, record(folder, made), options.out, made / "profile")


if __name__ == "__main__":
    main()
