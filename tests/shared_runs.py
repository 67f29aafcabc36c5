"""A run of two real recordings with picks, captions and words that must not leave the machine."""

from __future__ import annotations

from pathlib import Path

from earmark import Pick, Span, open_recording
from earmark.captioning.request import Answer
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run.records import PickFrames, RecordingRow
from earmark.run.run import Run
from making import make_video
from small_runs import CallRow

SECRETS = ("sk-planted1234", "tokenval3", "10.1.2.3", "vlmhost", "hiddenfolder", "userpass1")
SPOKEN = "the door code is four"
WINDOWS = (1, 3)


def tell_shared(folder: Path, *, sizes: tuple[tuple[int, int], ...] = ((320, 240),) * 2) -> Path:
    """The run; recordings lie in a folder whose name is secret, and texts quote secrets."""
    media = folder / "hiddenfolder"
    media.mkdir(parents=True)
    plan = {"model": "m1", "server": "https://vlmhost.example/v1", "gate": str(media / "own.gate")}
    with Run(folder / "run", plan) as ledger:
        for name, size in zip("ab", sizes, strict=True):
            path = make_video(
                media / f"{name}.mp4",
                duration=20.0,
                clicks=[5.0, 13.0] if name == "a" else [6.0],
                fps=5,
                group=5,
                size=size,
            )
            _tell(ledger, path)
        url = "https://me:userpass1@vlmhost.example/c.mp4?token=tokenval3"
        ledger.fail_recording(url, url, f"no answer from {url} at 10.1.2.3:80 for {media}/c.mp4")
    return folder / "run"


def _tell(ledger: Run, path: Path) -> None:
    recording = open_recording(path)
    key = recording.key
    ledger.add(RecordingRow.of(recording))
    spans = {window: Span(window * 4.0, window * 4.0 + 4) for window in WINDOWS}
    ledger.choose(
        key, [Pick(n, s.start, s.end, s.start + 2, 0.5, 0.5, 0.5, "why") for n, s in spans.items()]
    )
    said = EvidenceEntry(spans[1], "said", SPOKEN, 0.9, "whisper")
    ledger.keep_evidence(key, [said], kinds={"said"})
    for window, span in spans.items():
        ledger.keep_frames(key, PickFrames(span, b"", 12, 1, 40_000))
        call = CallRow(f"{key} {window}", key, span, "m1")
        ledger.unanswered([call])
        ledger.begin(call)
        if window == 3:
            ledger.fail(call, f"http://10.1.2.3:8000/v1 refused key sk-planted1234 of {path}")
            ledger.begin(call)
        text = f"A hand turns tap {window}; see {path} and https://vlmhost.example/x"
        ledger.keep(call, Answer(text, "m1", prompt_tokens=100), spend=0.25)
