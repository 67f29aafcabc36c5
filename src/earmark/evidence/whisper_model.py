"""Whisper: transcribes half a minute of sound, with its language and the times of words.

    sound ──▶ log-mel ──▶ encoder ──▶ decoder, a token at a time ──▶ text
                                        └─ attention to the sound ──▶ times of words

The time of a token is read from the attention heads of the decoder that follow the sound (Radford
et al., 2022, and the list of heads published with the weights): one more pass over the finished
text, and the best monotonic path through the attention.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from earmark.evidence.speech_listener import Transcript, Word
from earmark.features.encoder import SAMPLE_RATE
from earmark.features.spectrum import hertz_bands
from earmark.models import ModelStore
from earmark.models.catalogue import WHISPER
from earmark.models.sessions import open_session
from earmark.timeline import FloatArray

MAX_SECONDS = 30.0

BANDS, SIZE, HOP = 80, 400, 160
"""Mel bands, samples per spectrum, and samples between spectra."""

STEP = 2 * HOP / SAMPLE_RATE

TOKENS_A_SECOND, EXTRA_TOKENS = 7.0, 12
"""More is a model that makes up what it hears."""

MAX_FIRST_TIME = 50
"""Steps of 0.02 s; the authors' choice."""

KNOWN_LANGUAGE_WEIGHT = 10.0

ONSET_SHARE = 0.5

MEDIAN_STEPS = 7


class WhisperModel:
    """The four published files, opened on one thread; a worker opens them again."""

    name = "whisper-base"

    def __init__(self, store: ModelStore | None = None, language: str = "") -> None:
        self._store = store or ModelStore()
        self._language = language

    def __reduce__(self) -> tuple[Any, ...]:
        return WhisperModel, (self._store, self._language)

    def __call__(self, samples: FloatArray, *, languages: Collection[str] = ()) -> Transcript:
        """At most `MAX_SECONDS` at 16 kHz; `languages` heard before are preferred."""
        if len(samples) > MAX_SECONDS * SAMPLE_RATE:
            raise ValueError(f"Whisper hears {MAX_SECONDS:g} s at once")
        self.check()
        (encoded,) = self._encoder.run(["last_hidden_state"], {"input_features": log_mel(samples)})
        language, certainty = self._find_language(encoded, languages)
        settings, seconds = self._settings, len(samples) / SAMPLE_RATE
        start = [settings["decoder_start_token_id"], settings["lang_to_id"][f"<|{language}|>"]]
        start += [settings["task_to_id"]["transcribe"]]
        written = self._decode_tokens(
            encoded, start, most=round(TOKENS_A_SECOND * seconds) + EXTRA_TOKENS
        )
        text = [token for token in written if token < self._first_time_token]
        start += [settings["no_timestamps_token_id"]]
        words = self._align(encoded, start, text, steps=math.ceil(len(samples) / (2 * HOP)))
        return Transcript(words, language, certainty)

    def check(self) -> None:
        for name in WHISPER:
            self._store.find(name)
        known = [code.strip("<|>") for code in self._settings["lang_to_id"]]
        if self._language and self._language not in known:
            raise ValueError(
                f"Whisper knows no language {self._language!r}, but {', '.join(known)}"
            )

    def _find_language(self, encoded: FloatArray, before: Collection[str]) -> tuple[str, float]:
        codes = self._settings["lang_to_id"]
        logits = self._decoder.run(encoded, [self._settings["decoder_start_token_id"]]).logits[-1]
        shares = _softmax(logits[list(codes.values())])
        known = dict(zip((code.strip("<|>") for code in codes), shares, strict=True))
        weight = {code: KNOWN_LANGUAGE_WEIGHT if code in before else 1.0 for code in known}
        language = self._language or max(known, key=lambda code: known[code] * weight[code])
        return language, float(known[language])

    def _decode_tokens(self, encoded: FloatArray, start: Sequence[int], *, most: int) -> list[int]:
        settings, text = self._settings, list[int]()
        end = settings["eos_token_id"]
        step = self._decoder.run(encoded, start)
        while len(text) < most:
            logits = step.logits[-1].copy()
            logits[
                [*settings["suppress_tokens"], *range(end + 1, self._first_time_token)]
            ] = -np.inf
            if not text:
                logits[settings["begin_suppress_tokens"]] = -np.inf
            token = int(self._apply_time_rules(logits, text).argmax())
            if token == end:
                break
            text.append(token)
            spoken = [index for index, word in enumerate(text) if word < self._first_time_token]
            if extra := repeated_tail([text[index] for index in spoken]):
                return text[: spoken[-extra]]
            step = self._decoder.run(encoded, [token], after=step)
        return text

    def _apply_time_rules(self, logits: FloatArray, text: Sequence[int]) -> FloatArray:
        """Times come in pairs around text, and never decrease.

        <0.0> text text <2.1> <2.1> text <4.0>
        """
        times, end = self._first_time_token, self._settings["eos_token_id"]
        is_time = [token >= times for token in text[-2:]]
        if not text:
            logits[:times] = logits[times + MAX_FIRST_TIME + 1 :] = -np.inf
        elif is_time[-1]:
            is_open = len(is_time) == 1 or is_time[0]
            logits[slice(times, None) if is_open else slice(0, end)] = -np.inf
        earlier_times = [token for token in text if token >= times]
        if earlier_times:
            logits[times : earlier_times[-1] + (not is_time[-1])] = -np.inf
        later = logits[times:].max()
        together = (
            later + np.log(np.exp(logits[times:] - later).sum()) if later > -np.inf else later
        )
        if together > logits[:times].max():
            logits[:times] = -np.inf
        return logits

    def _align(
        self, encoded: FloatArray, start: Sequence[int], text: Sequence[int], *, steps: int
    ) -> tuple[Word, ...]:
        if not text or steps == 0:
            return ()
        end = self._settings["eos_token_id"]
        step = self._decoder.run(encoded, [*start, *text, end])
        rows = slice(len(start) - 1, len(start) + len(text))  # each row predicts the next token
        heads = [step.attention[layer][head] for layer, head in self._settings["alignment_heads"]]
        begins, ends = monotonic_path(np.stack(heads)[:, rows, :steps])
        shares = _softmax(step.logits[rows][: len(text)])
        sure = shares[np.arange(len(text)), list(text)]
        return words_from_tokens(text, begins * STEP, ends * STEP, sure, self._vocabulary)

    @property
    def _first_time_token(self) -> int:
        return int(self._settings["no_timestamps_token_id"]) + 1

    @cached_property
    def _encoder(self) -> Any:
        return open_session(self._store.find("whisper-encoder"))

    @cached_property
    def _decoder(self) -> _Decoder:
        return _Decoder(open_session(self._store.find("whisper-decoder")))

    @cached_property
    def _vocabulary(self) -> dict[int, str]:
        known = json.loads(self._store.find("whisper-vocabulary").read_text(encoding="utf-8"))
        return {number: token for token, number in known.items()}

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return dict(json.loads(self._store.find("whisper-settings").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True, eq=False)
class _DecoderOutput:
    logits: FloatArray
    """`(tokens, vocabulary)`; each row predicts the next token."""
    attention: list[FloatArray]
    """Cross-attention per layer, `(heads, tokens, steps)`; only for a first call."""
    cache: dict[str, FloatArray]


class _Decoder:
    def __init__(self, session: Any) -> None:
        self._session = session
        self._names = [value.name for value in session.get_outputs()]
        past_inputs = [value for value in session.get_inputs() if value.name.startswith("past")]
        self._empty = {
            value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
            for value in past_inputs
        }

    def run(
        self, encoded: FloatArray, tokens: Sequence[int], *, after: _DecoderOutput | None = None
    ) -> _DecoderOutput:
        past = after.cache if after else self._empty
        is_first = after is None
        names = [name for name in self._names if is_first or not name.startswith("cross")]
        names = [name for name in names if not name.startswith("decoder_attentions")]
        inputs = {
            "input_ids": np.array([tokens], dtype=np.int64),
            "encoder_hidden_states": encoded,
            "use_cache_branch": np.array([not is_first]),
            **past,
        }
        outputs = dict(zip(names, self._session.run(names, inputs), strict=True))
        cache = {
            name.replace("present", "past_key_values"): value
            for name, value in outputs.items()
            if name.startswith("present") and (is_first or ".decoder." in name)
        }
        attention = [value[0] for name, value in outputs.items() if name.startswith("cross")]
        return _DecoderOutput(outputs["logits"][0], attention, past | cache)


def log_mel(samples: FloatArray) -> FloatArray:
    """As Whisper was trained on, `(1, BANDS, 3000)`: padded to 30 s."""
    from scipy import fft

    whole = np.zeros(round(MAX_SECONDS * SAMPLE_RATE), dtype=np.float32)
    whole[: len(samples)] = samples
    around = np.pad(whole, SIZE // 2, mode="reflect")
    rows = np.lib.stride_tricks.sliding_window_view(around, SIZE)[::HOP][:-1]
    spectra = fft.rfft(rows * np.hanning(SIZE + 1)[:-1].astype(np.float32), axis=1)
    bank = hertz_bands(
        BANDS, size=SIZE, sample_rate=SAMPLE_RATE, low=0, high=SAMPLE_RATE / 2, slaney=True
    )
    power = (spectra.real**2 + spectra.imag**2) @ bank.T.astype(np.float32)
    level = np.log10(np.maximum(power, 1e-10))
    level = np.maximum(level, level.max() - 8.0)
    return np.asarray((level.T[None] + 4.0) / 4.0, dtype=np.float32)


def monotonic_path(attention: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The steps at which each token begins and ends, on the best path through `attention`.

        silence . . . | token one  |. . pause . token two  | token three ...
        path    |<------ one ----->|<------- two --------->|<---- three
        begins        ^                         ^          ^

    The path visits every token in order, and assigns a pause to the token after it: a token begins
    where the attention to it does. `attention` is `(heads, tokens, steps)`.
    """
    from scipy.ndimage import median_filter

    spread = attention.std(axis=1, keepdims=True)
    scaled = (attention - attention.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-9)
    gain = median_filter(scaled, size=(1, 1, MEDIAN_STEPS)).mean(axis=0)  # (tokens, steps)
    edges = _best_path(gain)
    begins, plain = edges[:-1].copy(), attention.mean(axis=0)
    for token, (first, last) in enumerate(pairwise(edges)):
        inside = plain[token, int(first) : int(last)]
        if len(inside):
            begins[token] += int(np.argmax(inside >= ONSET_SHARE * inside.max()))
    return begins, edges[1:]


def _best_path(gain: FloatArray) -> FloatArray:
    tokens, steps = gain.shape
    best, advanced = np.full(tokens, -np.inf), np.zeros((steps, tokens), dtype=bool)
    best[0] = 0.0
    for step in range(steps):
        before = np.concatenate([[-np.inf], best[:-1]]) if step else np.full(tokens, -np.inf)
        advanced[step] = before > best
        best = np.maximum(before, best) + gain[:, step]
    token = min(tokens, steps) - 1
    edges = np.full(tokens + 1, float(steps))
    for step in range(steps - 1, -1, -1):
        edges[token] = step
        if advanced[step, token]:
            token -= 1
    return edges


def repeated_tail(text: Sequence[int]) -> int:
    """How many of the last tokens only repeat what comes before them.

    A phrase of up to three tokens may occur five times, a longer one three times.
    """
    for size in range(1, len(text) // 4 + 1):
        times = 6 if size <= 3 else 4
        tail = text[-times * size :]
        if len(tail) == times * size and len(set(zip(*[iter(tail)] * size, strict=True))) == 1:
            return (times - 1) * size
    return 0


def _softmax(logits: FloatArray) -> FloatArray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def words_from_tokens(
    tokens: Sequence[int],
    begins: FloatArray,
    ends: FloatArray,
    sure: FloatArray,
    vocabulary: Mapping[int, str],
) -> tuple[Word, ...]:
    words: list[Word] = []
    for indices in _group_tokens(tokens, vocabulary):
        text = _text([tokens[index] for index in indices], vocabulary)
        start, end = float(begins[indices[0]]), float(ends[indices[-1]])
        share = float(np.mean(sure[list(indices)]))
        words.append(Word(text.strip(), start, max(start, end), min(1.0, share)))
    return tuple(word for word in words if word.text)


def _group_tokens(tokens: Sequence[int], vocabulary: Mapping[int, str]) -> Iterator[list[int]]:
    """A space starts a word, punctuation never does.

    In scripts without spaces a word ends as soon as its bytes are whole characters.
    """
    group: list[int] = []
    for index in range(len(tokens)):
        so_far = _text([tokens[member] for member in group], vocabulary)
        piece = _text([tokens[index]], vocabulary)
        is_whole = "\ufffd" not in so_far
        begins = piece.startswith(" ") or (is_whole and so_far and not _has_blanks(so_far + piece))
        if group and begins and not _is_punctuation(piece):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _has_blanks(text: str) -> bool:
    names = (unicodedata.name(char, "") for char in text if char.isalpha())
    unspaced = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER")
    return not any(name.startswith(unspaced) for name in names)


def _is_punctuation(text: str) -> bool:
    stripped = text.strip()
    return bool(stripped) and all(unicodedata.category(char).startswith("P") for char in stripped)


def _text(tokens: Sequence[int], vocabulary: Mapping[int, str]) -> str:
    spelt = "".join(vocabulary.get(token, "") for token in tokens)
    alphabet = _byte_alphabet()
    return bytes(alphabet[char] for char in spelt if char in alphabet).decode("utf-8", "replace")


@cache
def _byte_alphabet() -> dict[str, int]:
    """A byte is itself if printable, else a character from 256 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }
