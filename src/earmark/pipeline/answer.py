from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

from earmark.captioning.captioner import ModelAddress
from earmark.captioning.chat_protocol import (
    first_choice_text,
    parse_answer_json,
    response_format,
    token_usage,
)
from earmark.captioning.openai_captioner import Endpoint
from earmark.captioning.request import CHARACTERS_A_TOKEN, Question
from earmark.errors import CallRejected, UnreadableAnswer
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.find import find
from earmark.pipeline.resume import reopen_all
from earmark.pipeline.session import Choices, Session, open_session
from earmark.run.run import Run
from earmark.search.cited_answer import (
    SCHEMA,
    CitableEntry,
    CitedAnswer,
    as_messages,
    check_answer,
    gather_entries,
    telling_entries,
)
from earmark.settings import InvalidSetting, Settings
from earmark.text_format import Heading, counted

ANSWER_TOKENS = 800

TIMEOUT = 120.0

LISTED = 10

MORE_CALLS = 20
"""Calls to suggest to the user if the run does not answer the question."""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    answer: CitedAnswer
    bought: int
    unasked: int
    tokens_a_call: int
    likeliest: tuple[CitableEntry, ...] = ()
    """Best first; empty if a model was asked."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The answer with its sources, or the likeliest entries if no model was asked."""
        if self.likeliest:
            for entry in self.likeliest:
                yield f"{entry.place}, {entry.kind}: “{entry.text}”"
            return
        answer = self.answer
        for sentence in answer.sentences:
            yield Heading(sentence.text)
            for citation in sentence.citations:
                yield f"  {citation.entry.place}, {citation.entry.kind}: “{citation.quote}”"
        if not answer.sentences:
            yield "The run does not say."
        if answer.unknown:
            yield f"Not known: {answer.unknown}"
        if answer.left_out:
            yield f"{counted(answer.left_out, 'sentence')} left out that quoted nothing in the run"
        if self.unasked and (answer.unknown or not answer.sentences):
            calls = min(MORE_CALLS, self.unasked)
            yield (
                f"No model has looked at {counted(self.unasked, 'window')}: "
                f"--model http://HOST/v1 --calls {calls} looks at {calls} of them, "
                f"for at most {calls * self.tokens_a_call:,} tokens"
            )


def ask(
    run: str | Path,
    question: str,
    *,
    calls: int = 0,
    settings: Settings | Session | None = None,
    api_key: str | None = None,
    **choices: Unpack[Choices],
) -> RunAnswer:
    """Ask the run in `run` a question; every sentence of the answer cites an entry of the run.

    Without a server the answer has no sentences, and `likeliest` lists the entries that may help.
    `calls` is how many calls to make first, to look for it in the recordings as `find` does. The
    other arguments are those of `caption`.

    Raises:
        ValueError: the question is empty, or `calls` is given without a server.
        CallError: the server does not answer, or its answer does not follow the schema.
    """
    plan = open_session((), settings, **choices)
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"the question is empty or not text: {question!r}; ask in words")
    model = ModelAddress.parse(plan.settings.model)
    is_asked = model.server is not None
    if calls and not is_asked:
        raise InvalidSetting("model", "calls need a server with the OpenAI API: http://HOST/v1")
    bought = 0
    if calls:
        with Run(Path(run)) as stored:
            recordings, _ = reopen_all(stored, stored.recordings(), plan.settings.folders)
        sources = [recording.source for recording in recordings.values()]
        search = find(question, sources, run=run, calls=calls, settings=plan, api_key=api_key)
        bought = search.calls
    with Run(Path(run)) as stored:
        gather = gather_entries if is_asked else telling_entries
        entries = gather(stored, question, SentenceEncoder.if_available(plan.store))
        totals = stored.totals()
    data, tokens = _NOTHING, 0
    if entries and is_asked:
        data, tokens = _chat(model, as_messages(question, entries), api_key)
    answer = check_answer(question, entries, data, tokens=tokens)
    most = Question().tokens + Question().answer_tokens + 600 // CHARACTERS_A_TOKEN
    unasked = max(0, totals.windows - totals.answered)
    likeliest = () if is_asked else tuple(entries[:LISTED])
    return RunAnswer(answer, bought, unasked, most, likeliest)


_NOTHING: Mapping[str, Any] = {"sentences": [], "unknown": "nothing in the run mentions it"}


def _chat(
    choice: ModelAddress, messages: list[dict[str, str]], api_key: str | None
) -> tuple[Mapping[str, Any], int]:
    endpoint = Endpoint(str(choice.server), api_key=api_key)
    model = choice.name or next(iter(endpoint.models()), "")
    if not model:
        raise CallRejected(f"{endpoint.address} serves no model; add #NAME to its address")
    body = {
        "model": model,
        "messages": messages,
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0.0,
        "response_format": response_format(SCHEMA),
    }
    reply = endpoint.chat(body, timeout=TIMEOUT)
    words, finish, _ = first_choice_text(reply)
    try:
        data = parse_answer_json(words.strip(), {"type": "object"})
    except (ValueError, RecursionError) as error:
        why = "the answer is not the JSON that was asked for"
        if finish == "length":
            why = f"the answer was cut off after {ANSWER_TOKENS} tokens; ask about less at a time"
        raise UnreadableAnswer(f"{why}: {words[:60]!r}") from error
    prompt_tokens, completion_tokens, _ = token_usage(reply)
    return data, (prompt_tokens or 0) + (completion_tokens or 0)
