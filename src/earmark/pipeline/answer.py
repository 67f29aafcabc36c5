"""Answers a question about a run from its entries, with citations; can make more calls first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.captioning.chat_protocol import (
    Usage,
    first_choice_text,
    parse_answer_json,
    response_format,
)
from earmark.captioning.model_choice import ModelChoice
from earmark.captioning.openai_endpoint import Endpoint
from earmark.captioning.question import Question
from earmark.captioning.request import CHARACTERS_A_TOKEN
from earmark.errors import CallRejected, UnreadableAnswer
from earmark.ledger.run_reader import Run
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.find import find
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.search.cited_answer import (
    SCHEMA,
    CitableEntry,
    CitedAnswer,
    as_messages,
    check_answer,
    gather_entries,
    run_paths,
    telling_entries,
)

ANSWER_TOKENS = 800

TIMEOUT = 120.0

LISTED = 10
"""Most entries listed if no model writes an answer."""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The answer of a run to a question, and what further calls would cost."""

    answer: CitedAnswer
    bought: int
    """Calls made for this question before answering."""
    unasked: int
    """Windows that no model was asked about."""
    tokens_a_call: int
    """Most tokens of a further call."""
    likeliest: tuple[CitableEntry, ...] = ()
    """Entries that most likely answer the question, best first; empty if a model was asked."""


def ask(
    run: str | Path,
    question: str,
    *,
    calls: int = 0,
    plan: Plan | None = None,
    api_key: str | None = None,
    **choices: Any,
) -> RunAnswer:
    """Ask the run in `run` a question; every sentence of the answer cites an entry of the run.

    Without a server the answer has no sentences, and `likeliest` lists the entries that may help.

    Args:
        run: The run's folder.
        question: In words.
        calls: How many calls to make first, to look for it in the recordings as `find` does.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        api_key: For a server that needs one; stored nowhere.
        choices: See `make_plan`; `server` and `model` name the model to ask.

    Raises:
        ValueError: the question is empty, or `calls` is given without a server.
        CallError: the server does not answer, or its answer does not follow the schema.
    """
    plan = make_plan((), plan, **choices)
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"ask something in words: the question is empty or no text: {question!r}")
    is_asked = plan.model_choice.server is not None
    if calls and not is_asked:
        raise ValueError(
            "say whom to ask with --vlm URL (in Python: server=URL): "
            "any server that speaks the OpenAI API"
        )
    folder, bought = Path(run), 0
    if calls:
        paths = run_paths(folder)
        bought = find(question, paths, run=folder, calls=calls, plan=plan, api_key=api_key).calls
    with Run(folder) as kept:
        gather = gather_entries if is_asked else telling_entries
        entries = gather(kept, question, SentenceEncoder.if_available(plan.store))
        totals = kept.totals()
    data, tokens = _NOTHING, 0
    if entries and is_asked:
        data, tokens = _chat(plan.model_choice, as_messages(question, entries), api_key)
    answer = check_answer(question, entries, data, tokens=tokens)
    most = Question().tokens + Question().answer_tokens + 600 // CHARACTERS_A_TOKEN
    unasked = max(0, totals.windows - totals.answered)
    likeliest = () if is_asked else tuple(entries[:LISTED])
    return RunAnswer(answer, bought, unasked, most, likeliest)


_NOTHING: Mapping[str, Any] = {"sentences": [], "unknown": "nothing in the run tells of it"}


def _chat(
    choice: ModelChoice, messages: list[dict[str, str]], api_key: str | None
) -> tuple[Mapping[str, Any], int]:
    """The answer of the model as JSON, and the tokens of the call; a `CallError` if it fails."""
    endpoint = Endpoint(str(choice.server), api_key=api_key)
    model = choice.model or next(iter(endpoint.models()), "")
    if not model:
        raise CallRejected(f"{endpoint.address} serves no model; name one with --model")
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
    used = Usage.of(reply)
    return data, (used.prompt_tokens or 0) + (used.completion_tokens or 0)
