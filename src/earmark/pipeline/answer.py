from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
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
from earmark.captioning.request import CHARACTERS_A_TOKEN, OVERHEAD, Question
from earmark.errors import CallRejected, CallTimeout, UnreadableAnswer
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.resume import reopen_all
from earmark.pipeline.session import Choices, Session, open_session
from earmark.report.moments import Moment
from earmark.run.calls import count_unlisted
from earmark.run.run import Run
from earmark.run.schema import connect, explain_errors, transaction
from earmark.search.cited_answer import (
    SCHEMA,
    CitedAnswer,
    as_messages,
    check_answer,
    gather_entries,
    telling_entries,
)
from earmark.settings import InvalidSetting, Limits, Settings
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
    likeliest: tuple[Moment, ...] = ()
    """Best first; empty if a model has answered."""
    is_asked: bool = False

    def to_json(self) -> dict[str, Any]:
        facts = {"bought": self.bought, "unasked": self.unasked}
        likeliest = [moment.to_json() for moment in self.likeliest]
        return self.answer.to_json() | facts | {"likeliest": likeliest}

    def lines(self) -> Iterator[str]:
        """The answer with its sources, or the likeliest entries if no model was asked."""
        if self.likeliest and self.is_asked:
            yield "No sentence of the answer quotes the run; these entries match best:"
        for entry in self.likeliest:
            yield f"{entry.place}, {entry.kind}: “{entry.text}”"
        if self.likeliest and not self.is_asked:
            return
        answer = self.answer
        for sentence in answer.sentences:
            yield Heading(sentence.text)
            for citation in sentence.citations:
                yield f"  {citation.entry.place}, {citation.entry.kind}: “{citation.quote}”"
        if not answer.sentences and not self.likeliest:
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
    return answer(Path(run), question, plan, calls=calls, api_key=api_key)


def answer(
    run: Path,
    question: str,
    plan: Session,
    *,
    calls: int,
    api_key: str | None,
    before_request: Callable[[], None] = lambda: None,
) -> RunAnswer:
    """As `ask`; `before_request` is called before each request for the answer itself."""
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"the question is empty or not text: {question!r}; ask in words")
    model = ModelAddress.parse(plan.settings.model)
    is_asked = model.server is not None
    if calls and not is_asked:
        raise InvalidSetting("model", "calls need a server with the OpenAI API: http://HOST/v1")
    bought = 0
    if calls:
        with Run(run) as stored:
            recordings, _ = reopen_all(stored, stored.recordings(), plan.settings.folders)
        sources = [recording.source for recording in recordings.values()]
        from earmark.pipeline.find import find  # most questions do not look again

        search = find(question, sources, run=run, calls=calls, settings=plan, api_key=api_key)
        bought = search.calls
    with Run(run) as stored:
        encoder = SentenceEncoder.if_available(plan.store)
        telling = telling_entries(stored, question, encoder)
        entries = gather_entries(stored, question, encoder) if is_asked else telling
        totals = stored.totals()
    data, tokens = _NOTHING, 0
    if entries and is_asked:
        meter = Meter(run, plan.settings.limits, before_request)
        data, tokens = chat(model, as_messages(question, entries), api_key, meter)
    cited = check_answer(question, entries, data, tokens=tokens)
    most = Question().tokens + Question().answer_tokens + 600 // CHARACTERS_A_TOKEN
    unasked = max(0, totals.windows - totals.answered)
    likeliest = () if cited.sentences else tuple(telling[:LISTED])
    return RunAnswer(cited, bought, unasked, most, likeliest, is_asked)


_NOTHING: Mapping[str, Any] = {"sentences": [], "unknown": "nothing in the run mentions it"}


@dataclass(frozen=True, slots=True)
class _TextCall:
    most_tokens: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Meter:
    """Counts each request in the run before it is sent, at the most it can cost."""

    run: Path
    limits: Limits
    before_request: Callable[[], None] = lambda: None

    def chat(self, endpoint: Endpoint, body: Mapping[str, Any]) -> dict[str, Any]:
        """`CallRejected` if a cap of the run is reached."""
        most = (len(json.dumps(body)) // CHARACTERS_A_TOKEN + OVERHEAD, ANSWER_TOKENS)
        with Run(self.run) as run:
            if cap := run.spent().exceeded_limit(self.limits, [], _TextCall(most)):
                raise CallRejected(f"the model is not asked: {cap}")
        self.before_request()
        self._count(1, *most)
        calls, used = 0, most
        try:
            reply = endpoint.chat(body, timeout=TIMEOUT)
            prompt, completion, _ = token_usage(reply)
            if prompt is not None and completion is not None:
                used = prompt, completion
            return reply
        except CallRejected:
            used = 0, 0
            raise
        except CallTimeout as error:
            calls, used = -(not error.was_reached), most if error.was_sent else (0, 0)
            if not error.is_form:
                raise
        finally:
            self._count(calls, used[0] - most[0], used[1] - most[1])
        return self.chat(endpoint, body)  # which leaves out what the server has refused

    def _count(self, calls: int, prompt: int, completion: int) -> None:
        spend = self.limits.price(prompt, completion)
        with (
            explain_errors(self.run),
            closing(connect(self.run, to_write=True)) as database,
            transaction(database),
        ):
            count_unlisted(database, calls, prompt + completion, spend)


def chat(
    choice: ModelAddress, messages: list[dict[str, str]], api_key: str | None, meter: Meter
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
    reply = meter.chat(endpoint, body)
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
