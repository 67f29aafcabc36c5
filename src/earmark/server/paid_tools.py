"""Tools for agents that call a model, within the number of calls a person has granted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from earmark.captioning.limits import CURRENCY
from earmark.captioning.question import Question
from earmark.captioning.request import Answer, Request
from earmark.captioning.wrapped_captioner import WrappedCaptioner
from earmark.errors import CallRejected, EarmarkError
from earmark.ledger.run_lock import is_at_work
from earmark.media import Source
from earmark.media.source import folder_name, name_of
from earmark.pipeline.answer import ANSWER_TOKENS
from earmark.pipeline.answer import ask as ask_run
from earmark.pipeline.caption import caption as caption_recordings
from earmark.pipeline.find import as_question
from earmark.pipeline.find import find as find_moments
from earmark.pipeline.preview import preview
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.reporting.text_format import counted
from earmark.search.cited_answer import MOST_ENTRIES, MOST_TEXT, run_paths
from earmark.server.agent_tools import NOTICE, AgentTools, OutsideFolders
from earmark.server.run_jobs import sample_request
from earmark.server.run_library import key_of
from earmark.server.service import Service


class NotGranted(EarmarkError):
    """A tool needs more calls than are left of those granted."""


@dataclass(slots=True, eq=False)
class CallAllowance:
    """Calls granted and calls left; thread-safe."""

    granted: int
    left: int = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.granted < 0:
            raise ValueError(f"calls that are granted are 0 or more, not {self.granted}")
        self.left = self.granted

    def take(self) -> None:
        """Spend one call; raises `CallRejected` if none is left."""
        with self.lock:
            if self.left < 1:
                raise CallRejected(f"all {self.granted} calls that were granted are spent")
            self.left -= 1


@dataclass(frozen=True, slots=True)
class MeteredCaptioner(WrappedCaptioner):
    """A captioner that spends an allowance: every attempt is a call, answered or not."""

    allowance: CallAllowance

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, for one call of the allowance."""
        self.allowance.take()
        return self.captioner(request, timeout=timeout)


class PaidTools:
    """Tools that spend calls, one tool at a time; each checks the allowance first."""

    def __init__(self, service: Service, tools: AgentTools, allowance: CallAllowance) -> None:
        self.service, self.tools, self.allowance = service, tools, allowance

    def find(self, question: str, recordings: list[str], calls: int = 20) -> dict[str, Any]:
        """Look for one thing in recordings with so many calls: moments, and how many were missed.

        Spends calls of the allowance. The same question again goes on where it ended: `calls` are
        those of both together.
        """
        sources = self.tools.sources(recordings)
        asked = as_question(question, self.service.plan.question)
        self._require(calls, *_most_cost(asked, self.service.plan, calls))
        folder = self._folder(f"find {question[:40]}", sources)
        with self.service.ask_lock:
            plan = self._plan(make_plan(sources, self.service.plan, sounds=None))
            found = find_moments(question, run=folder, calls=calls, plan=plan)
        plain = found.to_json()
        for one in plain["recordings"]:
            one["path"] = name_of(one["path"])
        del plain["page"]
        return {"notice": NOTICE, **plain, "run": key_of(folder), **self._calls_left()}

    def ask(self, run: str, question: str, calls: int = 0) -> dict[str, Any]:
        """Ask a run a question: an answer whose every sentence quotes what the run holds.

        Spends one call of the allowance, and with `calls` up to so many more to look for it first.
        """
        if calls < 0:
            raise ValueError(f"calls are 0 or more, not {calls}")
        served, plan = self.tools.library[run], self.service.plan
        tokens, money = _most_cost(as_question(question, plan.question), plan, calls)
        text = MOST_ENTRIES * MOST_TEXT // 3
        money += plan.limits.price(text, ANSWER_TOKENS)
        self._require(1 + calls, tokens + text + ANSWER_TOKENS, money)
        if calls:
            self.tools.sources(run_paths(served.folder))  # raises if one lies outside
        with self.service.ask_lock:
            plan = self._plan(make_plan((), plan, sounds=None))
            self.allowance.take()
            key = self.service.api_key
            answered = ask_run(served.folder, question, calls=calls, plan=plan, api_key=key)
        plain = asdict(answered.answer)
        for sentence in plain["sentences"]:
            for each in sentence["citations"]:
                each["entry"]["path"] = name_of(each["entry"]["path"])
        return {"notice": NOTICE, **plain, "bought": answered.bought, **self._calls_left()}

    def caption(self, recordings: list[str], budget: str = "25%") -> dict[str, Any]:
        """Caption the windows of recordings most worth a call: a run, to be searched and looked at.

        Spends calls of the allowance; where it would take more than are left it says how many, and
        asks nothing. Done again it asks for no kept answer; a larger budget adds to it.
        """
        sources = self.tools.sources(recordings)
        folder = self._folder(Path(name_of(sources[0].uris[0])).stem, sources)
        plan = make_plan(sources, self.service.plan, budget=budget)
        with self.service.ask_lock:
            cost = preview(run=folder, plan=plan, api_key=self.service.api_key)
            self._require(cost.calls, cost.tokens, cost.money)
            done = caption_recordings(run=folder, plan=self._plan(plan))
        return {
            "notice": NOTICE,
            "run": key_of(folder),
            "totals": asdict(done.totals),
            "missed": done.missed,
            "stopped": done.tally.stopped,
            **self._calls_left(),
        }

    def _require(self, calls: int, tokens: int, money: float) -> None:
        """Raises `NotGranted`, with the cost, if fewer than `calls` are left."""
        left, granted = self.allowance.left, self.allowance.granted
        if calls <= left:
            return
        price = f" and {money:.4g} {CURRENCY}" if money else ""
        raise NotGranted(
            f"this takes up to {counted(calls, 'call')}, at most {tokens:,} tokens{price}; "
            f"{left} of {counted(granted, 'granted call')} are left, so nothing was asked. The "
            "person who runs this server grants calls when starting it: "
            f"`earmark mcp … --allow-calls {granted - left + calls}`"
        )

    def _plan(self, plan: Plan) -> Plan:
        self.service.require_model()
        return replace(plan, captioner=MeteredCaptioner(self.service.captioner, self.allowance))

    def _calls_left(self) -> dict[str, int]:
        return {"calls_left": self.allowance.left}

    def _folder(self, name: str, sources: Sequence[Source]) -> Path:
        """The run folder for that name and these recordings, the same every time."""
        digest = key_of("\n".join([name, *(uri for one in sources for uri in one.uris)]))[:8]
        folder = self.tools.library.folders[0] / "runs" / f"{folder_name(name)}-{digest}"
        if not self.tools.library.contains(folder):
            raise OutsideFolders("runs/ leads out of the folders that are served")
        if folder.exists() and is_at_work(folder):
            raise EarmarkError(f"{folder.name} is at work already; try again when it is done")
        return folder


def _most_cost(question: Question, plan: Plan, calls: int) -> tuple[int, float]:
    """The most tokens and money that `calls` calls cost."""
    request = sample_request(plan, question)
    tokens = sum(request.most_tokens)
    return calls * tokens, calls * plan.limits.price(*request.most_tokens)
