"""Words from Whisper's tokens: decoding its byte vocabulary, and word boundaries."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from earmark.timeline import FloatArray, Span

SENTENCE_ENDS = (".", "?", "!", "…", "。", "？", "！")

PAUSE = 0.8
"""Seconds between words that end a sentence."""

MAX_SENTENCE = 8.0
"""Longest sentence in seconds, for a page or a subtitle."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its start and end."""

    text: str
    """With the punctuation that follows it."""
    start: float
    end: float
    confidence: float
    """The mean probability of its tokens."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of one piece of sound."""

    words: tuple[Word, ...]
    """In order; times are seconds from its beginning."""
    language: str = ""
    """Language code, such as `en`; empty if unknown."""
    certainty: float = 0.0
    """Probability of that language; 0 if unknown."""

    def shifted(self, seconds: float) -> Transcript:
        """The same transcript with all times `seconds` later."""
        words = (
            replace(word, start=word.start + seconds, end=word.end + seconds) for word in self.words
        )
        return replace(self, words=tuple(words))

    def aligned_to(self, spoken: Sequence[Span]) -> Transcript:
        """The same, each word moved into speech: it starts in the stretch that contains most of it.

        spoken      |-------|          |-----|
        word              [....========]            begins with the second
        word           [===......]                  ends with the first
        """
        if not spoken:
            return self
        return replace(self, words=tuple(_align_to(word, spoken) for word in self.words))

    def sentences(self) -> Iterator[tuple[Word, ...]]:
        """The words of each sentence: it ends at a full stop, a pause, or the maximum length."""
        group: list[Word] = []
        for word in self.words:
            is_new = group and (
                group[-1].text.endswith(SENTENCE_ENDS)
                or word.start - group[-1].end > PAUSE
                or word.end - group[0].start > MAX_SENTENCE
            )
            if is_new:
                yield tuple(group)
                group = []
            group.append(word)
        if group:
            yield tuple(group)


def _align_to(word: Word, spoken: Sequence[Span]) -> Word:
    def shared(span: Span) -> float:
        """Seconds of the word in `span`; negative is its distance."""
        return min(word.end, span.end) - max(word.start, span.start)

    most = max(spoken, key=shared)
    start = min(max(word.start, most.start), most.end)
    ends = [span.end for span in spoken if span.start < word.end and span.end > start]
    return replace(word, start=start, end=max(start, min([word.end, *ends[-1:]])))


def words_from_tokens(
    tokens: Sequence[int],
    begins: FloatArray,
    ends: FloatArray,
    sure: FloatArray,
    vocabulary: Mapping[int, str],
) -> tuple[Word, ...]:
    """The words that `tokens` spell.

    Args:
        tokens: Text tokens only.
        begins: Start of each.
        ends: End of each.
        sure: Probability of each.
        vocabulary: Tokens by number, in the alphabet that stands for bytes.
    """
    words: list[Word] = []
    for places in _group_tokens(tokens, vocabulary):
        text = _text([tokens[place] for place in places], vocabulary)
        start, end = float(begins[places[0]]), float(ends[places[-1]])
        share = float(np.mean(sure[list(places)]))
        words.append(Word(text.strip(), start, max(start, end), min(1.0, share)))
    return tuple(word for word in words if word.text)


def _group_tokens(tokens: Sequence[int], vocabulary: Mapping[int, str]) -> Iterator[list[int]]:
    """Indices of the tokens of each word: a space starts one, punctuation never does.

    In scripts without spaces a word ends as soon as its bytes are whole characters.
    """
    group: list[int] = []
    for place in range(len(tokens)):
        sofar = _text([tokens[each] for each in group], vocabulary)
        piece = _text([tokens[place]], vocabulary)
        is_whole = "\ufffd" not in sofar
        begins = piece.startswith(" ") or (is_whole and sofar and not _has_blanks(sofar + piece))
        if group and begins and not _is_punctuation(piece):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _has_blanks(text: str) -> bool:
    """Whether the script of `text` puts spaces between words; most do."""
    names = (unicodedata.name(char, "") for char in text if char.isalpha())
    unspaced = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER")
    return not any(name.startswith(unspaced) for name in names)


def _is_punctuation(text: str) -> bool:
    stripped = text.strip()
    return bool(stripped) and all(unicodedata.category(char).startswith("P") for char in stripped)


def _text(tokens: Sequence[int], vocabulary: Mapping[int, str]) -> str:
    """The text of `tokens`; incomplete characters become U+FFFD."""
    spelt = "".join(vocabulary.get(token, "") for token in tokens)
    alphabet = _byte_alphabet()
    return bytes(alphabet[char] for char in spelt if char in alphabet).decode("utf-8", "replace")


@cache
def _byte_alphabet() -> dict[str, int]:
    """The byte of each character of the vocabulary: itself if printable, else one from 256 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }
