"""Word errors and times of words of the embedded speech recogniser, on speech made by espeak-ng.

    python scripts/speech_table.py                  # sentences that shaped nothing
    python scripts/speech_table.py --shaping        # those to try changes on

The library of espeak-ng tells when each word begins. `fluent` are sentences a few seconds apart;
`halting` has a pause of 0.2 to 1.2 s after every word. A word counts for its time where it was
recognised as it was said.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
from scipy.signal import resample_poly

from earmark.evidence.speech_listener import SpeechListener
from earmark.evidence.whisper_model import WhisperModel
from earmark.media import Sound

RATE = 16_000
VOICES = ("en-gb", "en-us")

SHAPING = (
    "Hold the board with your left hand while I mark the holes.",
    "The small screws are in the green tin next to the vice.",
    "Switch the light on, it is getting dark in here.",
    "We need four more plates and a clean towel.",
    "Put the kettle on the stove and wait until it boils.",
    "I will measure the window again before we cut the glass.",
)
REPORTED = (
    "Take the ladder outside and lean it against the garden wall.",
    "There is a long crack in the second pipe under the sink.",
    "Could you pass me the yellow cable and the short screwdriver?",
    "First we wash the potatoes, then we peel them and slice them.",
    "The battery of this machine is empty, so plug it in over night.",
    "She writes the number on the label and sticks it to the box.",
    "Wear your gloves, because the edge of that metal sheet is sharp.",
    "Stir the soup slowly and add a little salt and pepper.",
    "Every morning he sweeps the floor and empties the dust bin.",
    "Keep the door closed until the paint on the frame is dry.",
    "Bring the wheelbarrow round to the back and empty it on the heap.",
    "My brother fixed the old radio with a piece of copper wire.",
    "Turn the handle twice to the right until you feel it click.",
    "Those tomatoes are ripe, so we should pick them this afternoon.",
    "The carpenter sanded the table before he painted it white.",
    "Please count the bottles and write the total on the blackboard.",
    "After lunch they carried the heavy cupboard up three flights of stairs.",
    "Do not touch the oven, it stays hot for an hour.",
)


class _Event(ctypes.Structure):
    """What espeak-ng tells while it speaks; see its `speak_lib.h`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("number", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


class Speaker:
    """Makes speech, and says when each word of it begins."""

    def __init__(self) -> None:
        found = ctypes.util.find_library("espeak-ng")
        if found is None:
            raise SystemExit("espeak-ng makes the speech and is not here: apt install espeak-ng")
        self._library = ctypes.CDLL(found)
        self._rate = self._library.espeak_Initialize(2, 0, None, 0)  # 2: into the callback, at once
        self._library.espeak_SetParameter(1, 130, 0)  # words a minute
        self._sound: list[np.ndarray] = []
        self._words: list[tuple[int, int, float]] = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
        )
        self._callback = kind(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(self, samples: Sequence[int], count: int, events: Sequence[_Event]) -> int:
        if count > 0:
            self._sound.append(np.ctypeslib.as_array(samples, (count,)).copy())
        place = 0
        while events[place].type:
            if events[place].type == 1:
                event = events[place]
                self._words.append((event.text_position, event.length, event.audio_position / 1000))
            place += 1
        return 0

    def __call__(self, text: str, voice: str) -> tuple[np.ndarray, list[tuple[str, float]]]:
        """The sound of `text`, 16,000 samples a second, and its words with their beginnings."""
        self._sound, self._words = [], []
        self._library.espeak_SetVoiceByName(voice.encode())
        data = text.encode()
        self._library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None)
        sound = np.concatenate(self._sound) / 32768
        words = [(text[at - 1 : at - 1 + size], start) for at, size, start in self._words]
        return resample_poly(sound, RATE, self._rate).astype(np.float32), words


Talk = tuple[np.ndarray, list[tuple[str, float]]]


def fluent(speaker: Speaker, sentences: Sequence[str], voice: str) -> Talk:
    """The sentences, two to six seconds apart."""
    rng = np.random.default_rng(3)
    return joined(((*speaker(each, voice), rng.uniform(2, 6)) for each in sentences), rng)


def halting(speaker: Speaker, sentences: Sequence[str], voice: str) -> Talk:
    """The words one by one, each with a pause after it, longer after the last of a sentence."""
    rng = np.random.default_rng(4)

    def words() -> Iterator[tuple[np.ndarray, list[tuple[str, float]], float]]:
        for sentence in sentences:
            parts = sentence.split()
            for part in parts:
                sound, found = speaker(part, voice)
                loud = np.flatnonzero(np.abs(sound) > 0.02)
                cut = sound[loud[0] : loud[-1]]
                yield (
                    cut,
                    [(found[0][0], 0.0)],
                    (5.0 if part is parts[-1] else rng.uniform(0.2, 1.2)),
                )

    return joined(words(), rng)


def joined(
    pieces: Iterator[tuple[np.ndarray, list[tuple[str, float]], float]], rng: np.random.Generator
) -> Talk:
    """Pieces of speech in a quiet room, each with its pause after it."""
    sound: list[np.ndarray] = [np.zeros(2 * RATE, dtype=np.float32)]
    words: list[tuple[str, float]] = []
    for piece, own, pause in pieces:
        began = sum(map(len, sound)) / RATE
        words += [(text, began + start) for text, start in own]
        sound += [piece, np.zeros(round(pause * RATE), dtype=np.float32)]
    whole = np.concatenate(sound)
    return whole + 0.001 * rng.standard_normal(len(whole), dtype=np.float32), words


def plain(text: str) -> str:
    return re.sub(r"[^\w']", "", text.lower())


def recognise(samples: np.ndarray) -> list[tuple[str, float]]:
    """The words that are heard, with their beginnings, by the listener that `--speech` uses."""

    class Talking:
        has_audio = True

        def sound(self, **_: object) -> Iterator[Sound]:
            for first in range(0, len(samples), 30 * RATE):
                yield Sound(samples[first : first + 30 * RATE], first / RATE, RATE)

    entries = SpeechListener(WhisperModel())(Talking()).entries  # type: ignore[arg-type]
    return [(word[0], word[1]) for entry in entries for word in entry.data["words"]]


def compare(said: list[tuple[str, float]], heard: list[tuple[str, float]]) -> tuple[int, list]:
    """Words changed, left out or put in, and the errors of time of those that are right."""
    texts = [plain(text) for text, _ in said], [plain(text) for text, _ in heard]
    wrong, errors = 0, []
    matcher = SequenceMatcher(a=texts[0], b=texts[1], autojunk=False)
    for kind, low, high, first, last in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(said[low:high], heard[first:last], strict=True)
            errors += [(theirs[1] - ours[1], ours[0]) for ours, theirs in pairs]
        else:
            wrong += max(high - low, last - first)
    return wrong, errors


def main() -> None:
    """Speak, recognise, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shaping", action="store_true", help="sentences to try changes on")
    parser.add_argument("--worst", action="store_true", help="also the words furthest off")
    options = parser.parse_args()
    sentences = SHAPING if options.shaping else REPORTED
    speaker = Speaker()
    print("| speech | words | wrong | times | median s | 95 % s | furthest s | within 0.5 s |")
    print("|---|---|---|---|---|---|---|---|")
    for manner in (fluent, halting):
        for voice in VOICES:
            sound, said = manner(speaker, sentences, voice)
            wrong, errors = compare(said, recognise(sound))
            off = np.abs([error for error, _ in errors])
            print(
                f"| {manner.__name__}, {voice} | {len(said)} | {wrong / len(said):.1%} "
                f"| {len(off)} | {np.median(off):.2f} | {np.quantile(off, 0.95):.2f} "
                f"| {off.max():.2f} | {np.mean(off <= 0.5):.1%} |",
                flush=True,
            )
            if options.worst:
                print(sorted(errors, key=lambda each: -abs(each[0]))[:6], flush=True)


if __name__ == "__main__":
    main()
