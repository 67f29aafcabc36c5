"""What is said in speech made on the spot: the words, their times, and the language."""

from __future__ import annotations

import pickle
import re
import wave
from pathlib import Path

import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.errors import ModelMissing
from earmark.evidence.speech_listener import (
    CHUNK,
    HOP,
    MAX_PIECE,
    RecordingSpeech,
    SpeechListener,
    Transcript,
    VoiceActivity,
    Word,
    align_words,
    split_sentences,
)
from earmark.evidence.whisper_model import WhisperModel, monotonic_path, repeated_tail
from earmark.media import Source
from earmark.models import ModelStore
from made_speech import RATE, blocks, needs_espeak, needs_speech, say, silence, word_errors

SENTENCES = (
    "Please turn off the water and bring me the big hammer from the workbench.",
    "The red box is on the shelf.",
    "Good morning everyone, today we will repair the kitchen door.",
)


def made(tmp_path: Path) -> tuple[Path, list[float]]:
    """A file with the sentences five seconds apart, and when each begins."""
    samples, starts = [silence(4)], []
    for sentence in SENTENCES:
        starts.append(sum(map(len, samples)) / RATE)
        samples += [say(sentence), silence(5)]
    path = tmp_path / "talk.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((np.concatenate(samples) * 32767).astype("<i2").tobytes())
    return path, starts


@needs_espeak
@needs_speech
def test_words_and_their_times(tmp_path):
    path, starts = made(tmp_path)
    entries = SpeechListener(WhisperModel())(open_recording(Source((str(path),)))).entries
    wrong, words = word_errors(" ".join(SENTENCES), " ".join(entry.text for entry in entries))
    assert wrong / words <= 0.2, [entry.text for entry in entries]
    assert {entry.data["language"] for entry in entries} == {"en"}
    assert {entry.origin for entry in entries} == {"whisper-base"}
    for start in starts:
        nearest = min(entries, key=lambda entry: abs(entry.span.start - start))
        assert abs(nearest.span.start - start) < 0.5
    times = [word[1] for entry in entries for word in entry.data["words"]]
    assert times == sorted(times)


@needs_espeak
@needs_speech
def test_a_word_is_where_it_is_said():
    pieces, starts = [silence(0.1)], {}  # a stretch of speech begins so much before it
    for word in [
        "please",
        "bring",
        "the",
        "hammer",
        "and",
        "a",
        "ladder",
        "from",
        "our",
        "kitchen",
    ]:
        loud = np.flatnonzero(np.abs(made := say(word)) > 0.02)
        starts[word] = sum(map(len, pieces)) / RATE
        pieces += [made[loud[0] : loud[-1]], silence(0.1)]
    found = pickle.loads(pickle.dumps(WhisperModel()))(np.concatenate(pieces)).words
    heard = {word.text.lower().strip(".,"): word.start for word in found}
    both = heard.keys() & starts.keys()
    assert len(both) >= 7, heard
    assert max(abs(heard[word] - starts[word]) for word in both) < 0.5


class Scripted:
    """Says when it was asked, and that one word was said."""

    name = "scripted"

    def __init__(self) -> None:
        self.heard: list[int] = []

    def check(self) -> None: ...

    def __call__(self, samples, **_):
        self.heard.append(len(samples))
        return Transcript((Word("hm", 0.0, 0.2, 0.9),), "en", 0.9)


class Activity:
    """Speech all the time, in stretches of `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, sound):
        for block in sound:
            count = round(len(block) / RATE / self.seconds)
            starts = [block.start + place * self.seconds for place in range(count)]
            yield from (Span(start, start + self.seconds) for start in starts)

    def between_pauses(self, _):
        return []


def test_pieces_are_no_longer_than_can_be_heard_and_none_is_left_out():
    transcriber = Scripted()
    listener = SpeechListener(transcriber, Activity(5.0))
    pieces = list(listener.pieces(blocks(silence(120))))
    assert max(len(samples) for _, samples in pieces) <= MAX_PIECE * RATE
    assert sum(len(samples) for _, samples in pieces) == 120 * RATE
    assert [start for start, _ in pieces] == sorted(start for start, _ in pieces)


class Spoken:
    """Speech in these spans, each told as soon as it has ended."""

    def __init__(self, *spans: Span) -> None:
        self.spans = spans

    def __call__(self, sound):
        for block in sound:
            end = block.start + len(block) / RATE
            yield from (span for span in self.spans if block.start < span.end <= end)


@pytest.mark.parametrize("seconds", [1.0, 30.0, 70.0])
def test_speech_before_a_long_silence_is_transcribed(seconds):
    spans = Span(2, 6), Span(8, 12), Span(200, 225), Span(226, 229), Span(500, 504)
    samples = np.arange(600 * RATE, dtype=np.float32)
    sound = blocks(samples, seconds=seconds)
    found = list(SpeechListener(Scripted(), Spoken(*spans)).pieces(iter(sound)))
    wanted = [(2, 12), (200, 225), (226, 229), (500, 504)]
    assert [start for start, _ in found] == [start for start, _ in wanted]
    for (start, end), (_, piece) in zip(wanted, found, strict=True):
        assert np.array_equal(piece, samples[start * RATE : end * RATE])


def test_nothing_is_lost_where_talk_without_a_pause_is_split(monkeypatch):
    """A split piece ends a little later than what has been heard by then."""

    def talking(_, sound):
        for block in sound:
            chunks = range(len(block) // CHUNK)
            yield from ((block.start + HOP * chunk, 1.0) for chunk in chunks)

    monkeypatch.setattr(VoiceActivity, "probabilities", talking)
    samples = np.arange(2000 * CHUNK, dtype=np.float32)
    sound = blocks(samples, seconds=782 * HOP)  # 25 s are over with the last chunk of a block
    found = list(SpeechListener(Scripted()).pieces(iter(sound)))
    assert len(found) == 3
    assert np.array_equal(np.concatenate([piece for _, piece in found]), samples)


@needs_espeak
@needs_speech
def test_a_sentence_before_minutes_of_silence_is_written_down():
    class Talks:
        has_audio = True

        def sound(self, **_):
            parts = [silence(3), say(SENTENCES[0]), silence(150), say(SENTENCES[1]), silence(100)]
            return iter(blocks(np.concatenate(parts)))

    entries = SpeechListener(WhisperModel())(Talks()).entries
    wrong, words = word_errors(" ".join(SENTENCES[:2]), " ".join(one.text for one in entries))
    assert wrong / words <= 0.2, [entry.text for entry in entries]


def test_what_is_hardly_sure_is_left_out():
    class Unsure(Scripted):
        def __call__(self, *_, **__):
            return Transcript((Word("maybe", 0.0, 0.2, 0.1),), "en", 0.9)

    class Talks:
        has_audio = True

        def sound(self, **_):
            return iter(blocks(silence(30)))

    assert SpeechListener(Unsure(), Activity(5.0))(Talks()) == RecordingSpeech([], uncertain=2)
    sure = SpeechListener(Scripted(), Activity(5.0))(Talks())
    assert len(sure.entries) == 2 and sure.uncertain == 0


def test_sentences_end_at_full_stops_pauses_and_length():
    texts = ["One.", "Two", "three", "four", *["x"] * 12]
    starts = [0.0, 0.5, 1.0, 3.0, *np.arange(4.0, 16.0)]
    words = tuple(
        Word(text, start, start + 0.4, 1.0) for text, start in zip(texts, starts, strict=True)
    )
    groups = [" ".join(word.text for word in group) for group in split_sentences(words)]
    assert groups[:2] == ["One.", "Two three"]
    assert len(groups) == 4 and groups[2].startswith("four x")


@pytest.mark.parametrize(
    ("spoken", "word", "meant"),
    [
        ("---....----", "..=========", ".......===="),  # a pause before it was taken for it
        ("---....----", ".=====.....", ".==........"),  # a pause after it
        ("---....----", ".....=.....", ".......|..."),  # all pause: the nearer stretch
        ("-----------", "...====....", "...====...."),
        ("...........", "...====....", "...====...."),  # nothing is known of speech
    ],
)
def test_a_word_is_not_said_in_a_pause(spoken: str, word: str, meant: str):
    stretches = [Span(*each.span()) for each in re.finditer("-+", spoken)]
    start, end = re.search("=+", word).span()
    (placed,) = align_words([Word("x", start, end, 1.0)], stretches)
    assert (placed.start, placed.end) == re.search(r"=+|(?=\|)", meant).span()


def test_the_path_through_the_attention_is_the_drawn_one():
    attention = np.full((2, 4, 40), 0.01)
    for token, (start, end) in enumerate([(4, 12), (12, 20), (20, 33), (33, 40)]):
        attention[:, token, start:end] = 1.0
    begins, ends = monotonic_path(attention)
    assert begins.tolist() == [4.0, 12.0, 20.0, 33.0]
    assert ends.tolist() == [12.0, 20.0, 33.0, 40.0]


def test_more_tokens_than_steps_end_where_the_sound_does():
    begins, ends = monotonic_path(np.random.default_rng(0).random((2, 9, 4)))
    assert begins.tolist() == sorted(begins) and ends.max() <= 4


def test_without_the_files_it_says_how_to_get_them(tmp_path):
    with pytest.raises(ModelMissing, match="earmark models get whisper-encoder"):
        WhisperModel(ModelStore(tmp_path)).check()


@pytest.mark.parametrize(
    ("text", "extra"),
    [("", 0), ("ababab", 0), ("aaaaaa", 5), ("xyabababababab", 10), ("xy" + "hello" * 4, 15)],
)
def test_a_model_that_repeats_itself_is_stopped(text: str, extra: int):
    assert repeated_tail([ord(letter) for letter in text]) == extra


@needs_speech
def test_an_unknown_language_is_refused_before_anything_is_heard():
    with pytest.raises(ValueError, match=r"Whisper knows no language 'xx', but .*de"):
        WhisperModel(language="xx").check()
    with pytest.raises(ValueError, match=r"Whisper knows no language 'xx'"):
        WhisperModel(language="xx")(silence(1))
    WhisperModel(language="de").check()
