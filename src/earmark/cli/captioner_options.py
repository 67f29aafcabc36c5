"""Whom to ask, from the words of the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from earmark.captioning import (
    Captioner,
    LocalCaptioner,
    OpenAICaptioner,
    Replay,
    TagsCaptioner,
    TransformersCaptioner,
)
from earmark.captioning.llama_cpp import CONTEXT
from earmark.cli.checkpoints import model_store
from earmark.errors import EarmarkError
from earmark.evidence.object_detector import ObjectTagger

WORDS = 1024
"""Tokens a conversation has room for beside them: a prompt, and an answer of the usual length."""

WAYS = "--vlm URL, --gguf FILE, --transformers NAME or --replay FILE"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was said about the model; all of it optional."""

    vlm: str | None = None
    model: str | None = None
    gguf: Path | None = None
    mmproj: Path | None = None
    transformers: str | None = None
    replay: Path | None = None

    def captioner(self, *, concurrency: int, tokens: int) -> Captioner:
        """The one captioner that was asked for; `tags` when none was.

        Args:
            concurrency: Calls in flight.
            tokens: The most that the pictures, or an unusually long answer, of one call take.

        Raises:
            ValueError: two were asked for at once, or half of one.
        """
        if (
            sum(way is not None for way in (self.vlm, self.gguf, self.transformers, self.replay))
            > 1
        ):
            raise ValueError(f"only one model can be asked: give one of {WAYS}")
        if self.vlm:
            return self._server(self.vlm)
        if self.gguf:
            return self._local(self.gguf, parallel=concurrency, tokens=tokens)
        if self.transformers:
            return TransformersCaptioner(self.transformers)
        if self.replay:
            return Replay.load(self.replay, model=self.model or "replay")
        if self.model:
            raise ValueError(f"--model {self.model} needs to know where it is: give --vlm URL")
        return TagsCaptioner(look=_object_tagger())

    def _server(self, url: str) -> Captioner:
        key = os.environ.get("OPENAI_API_KEY")
        model = self.model or _only_model(url, key)
        return OpenAICaptioner(url, model, api_key=key)

    def _local(self, gguf: Path, *, parallel: int, tokens: int) -> Captioner:
        mmproj = self.mmproj or _beside(gguf)
        context = max(CONTEXT, tokens + WORDS)
        return LocalCaptioner(gguf, mmproj, parallel=parallel, context=context)


def _object_tagger() -> ObjectTagger | None:
    """Names what is seen where `earmark models get efficientdet-lite0` was run; else nobody."""
    store, name = model_store(), "efficientdet-lite0"
    at_hand = store.state(name) == "here" and find_spec("ai_edge_litert") is not None
    return ObjectTagger(weights=store.find(name)) if at_hand else None


def _only_model(url: str, key: str | None) -> str:
    served = OpenAICaptioner(url, "", api_key=key).endpoint.models()
    if len(served) != 1:
        raise EarmarkError(
            f"{url} serves {', '.join(served) or 'no models'}: say which one with --model NAME"
        )
    return served[0]


def _beside(gguf: Path) -> Path:
    """The one mmproj file in the folder of the model."""
    if not gguf.is_file():
        raise EarmarkError(f"there is no model at {gguf}; check the path given with --gguf")
    found = sorted(path for path in gguf.parent.glob("*mmproj*.gguf") if path != gguf)
    if len(found) != 1:
        raise EarmarkError(
            f"{gguf.name} needs its picture encoder: {len(found)} mmproj files lie beside it; "
            "say which with --mmproj FILE"
        )
    return found[0]
