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
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import fft
from scipy.ndimage import median_filter
from scipy.special import logsumexp, softmax

from earmark.evidence.speech_listener import Transcript, Word
from earmark.features.encoder import SAMPLE_RATE
from earmark.features.spectrum import hertz_bands
from earmark.models import ModelStore
from earmark.models.catalogue import WHISPER
from earmark.models.sessions import open_session
from earmark.timeline import FloatArray

_Past = dict[str, FloatArray]

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
        codes = [code.strip("<|>") for code in self._settings["lang_to_id"]]
        if self._language and self._language not in codes:
            raise ValueError(
                f"Whisper knows no language {self._language!r}, but {', '.join(codes)}"
            )

    def _find_language(self, encoded: FloatArray, before: Collection[str]) -> tuple[str, float]:
        tokens = self._settings["lang_to_id"]
        logits, *_ = self._run_decoder(encoded, [self._settings["decoder_start_token_id"]])
        shares = softmax(logits[-1, list(tokens.values())])
        share_of = dict(zip((code.strip("<|>") for code in tokens), shares, strict=True))

        def weighted(code: str) -> float:
            return float(share_of[code]) * (KNOWN_LANGUAGE_WEIGHT if code in before else 1.0)

        language = self._language or max(share_of, key=weighted)
        return language, float(share_of[language])

    def _run_decoder(
        self, encoded: FloatArray, tokens: Sequence[int], past: _Past | None = None
    ) -> tuple[FloatArray, list[FloatArray], _Past]:
        """Logits `(tokens, vocabulary)`, cross-attention, and the past of the next call.

        Each row of logits predicts the next token. The attention of each layer is `(heads, tokens,
        steps)`; there is none if there is a `past`.
        """
        is_first = past is None
        if past is None:
            past = {
                value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
                for value in self._decoder.get_inputs()
                if value.name.startswith("past")
            }
        unused = ("decoder_attentions",) if is_first else ("decoder_attentions", "cross")
        names = [value.name for value in self._decoder.get_outputs()]
        names = [name for name in names if not name.startswith(unused)]
        inputs = {
            "input_ids": np.array([tokens], dtype=np.int64),
            "encoder_hidden_states": encoded,
            "use_cache_branch": np.array([not is_first]),
            **past,
        }
        outputs = dict(zip(names, self._decoder.run(names, inputs), strict=True))
        present = {
            name.replace("present", "past_key_values"): value
            for name, value in outputs.items()
            if name.startswith("present") and (is_first or ".decoder." in name)
        }
        attention = [value[0] for name, value in outputs.items() if name.startswith("cross")]
        return outputs["logits"][0], attention, past | present

    def _decode_tokens(self, encoded: FloatArray, start: Sequence[int], *, most: int) -> list[int]:
        settings, text = self._settings, list[int]()
        end = settings["eos_token_id"]
        suppressed = [*settings["suppress_tokens"], *range(end + 1, self._first_time_token)]
        logits, _, past = self._run_decoder(encoded, start)
        while len(text) < most:
            scores = logits[-1].copy()
            scores[suppressed] = -np.inf
            if not text:
                scores[settings["begin_suppress_tokens"]] = -np.inf
            token = int(self._apply_time_rules(scores, text).argmax())
            if token == end:
                break
            text.append(token)
            spoken = [index for index, word in enumerate(text) if word < self._first_time_token]
            if extra := repeated_tail([text[index] for index in spoken]):
                return text[: spoken[-extra]]
            logits, _, past = self._run_decoder(encoded, [token], past)
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
        if logsumexp(logits[times:]) > logits[:times].max():
            logits[:times] = -np.inf
        return logits

    def _align(
        self, encoded: FloatArray, start: Sequence[int], text: Sequence[int], *, steps: int
    ) -> tuple[Word, ...]:
        if not text or steps == 0:
            return ()
        end = self._settings["eos_token_id"]
        logits, attention, _ = self._run_decoder(encoded, [*start, *text, end])
        rows = slice(len(start) - 1, len(start) + len(text))  # each row predicts the next token
        heads = [attention[layer][head] for layer, head in self._settings["alignment_heads"]]
        begins, ends = monotonic_path(np.stack(heads)[:, rows, :steps])
        shares = softmax(logits[rows][: len(text)], axis=-1)
        pieces = [self._vocabulary.get(token, b"") for token in text]
        own = shares[np.arange(len(text)), list(text)]
        return words_from_pieces(pieces, begins * STEP, ends * STEP, own)

    @property
    def _first_time_token(self) -> int:
        return int(self._settings["no_timestamps_token_id"]) + 1

    @cached_property
    def _encoder(self) -> Any:
        return open_session(self._store.find("whisper-encoder"))

    @cached_property
    def _decoder(self) -> Any:
        return open_session(self._store.find("whisper-decoder"))

    @cached_property
    def _vocabulary(self) -> dict[int, bytes]:
        alphabet = _byte_alphabet()
        return {
            number: bytes(alphabet[char] for char in token if char in alphabet)
            for token, number in self._read_json("whisper-vocabulary").items()
        }

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return self._read_json("whisper-settings")

    def _read_json(self, name: str) -> dict[str, Any]:
        return dict(json.loads(self._store.find(name).read_text(encoding="utf-8")))


def log_mel(samples: FloatArray) -> FloatArray:
    """As Whisper was trained on, `(1, BANDS, 3000)`: padded to 30 s."""
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


def words_from_pieces(
    pieces: Sequence[bytes], begins: FloatArray, ends: FloatArray, shares: FloatArray
) -> tuple[Word, ...]:
    """Times and probabilities are one per piece, the bytes of a token."""
    words: list[Word] = []
    for indices in _group_pieces(pieces):
        text = _text(pieces[index] for index in indices)
        start, end = float(begins[indices[0]]), float(ends[indices[-1]])
        share = float(np.mean(shares[indices]))
        words.append(Word(text.strip(), start, max(start, end), min(1.0, share)))
    return tuple(word for word in words if word.text)


def _group_pieces(pieces: Sequence[bytes]) -> list[list[int]]:
    """A space starts a word, punctuation never does.

    In scripts without spaces a word ends as soon as its bytes are whole characters.
    """
    groups: list[list[int]] = []
    for index, piece in enumerate(pieces):
        before = _text(pieces[member] for member in groups[-1]) if groups else ""
        text = _text([piece])
        is_whole = before and "\ufffd" not in before
        begins = text.startswith(" ") or (is_whole and not _has_blanks(before + text))
        if not groups or (begins and not _is_punctuation(text)):
            groups.append([])
        groups[-1].append(index)
    return groups


def _has_blanks(text: str) -> bool:
    names = (unicodedata.name(char, "") for char in text if char.isalpha())
    unspaced = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER")
    return not any(name.startswith(unspaced) for name in names)


def _is_punctuation(text: str) -> bool:
    stripped = text.strip()
    return bool(stripped) and all(unicodedata.category(char).startswith("P") for char in stripped)


def _text(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")


def _byte_alphabet() -> dict[str, int]:
    """A byte is itself if printable, else a character from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = [*printable, *range(256, 256 + len(others))]
    return {chr(code): byte for code, byte in zip(codes, [*printable, *others], strict=True)}
