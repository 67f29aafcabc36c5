"""Which model to ask: a choice that can be saved, and the captioner it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from earmark.captioning.captioner import Captioner
from earmark.captioning.llama_cpp import CONTEXT, LocalCaptioner
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.replay import Replay
from earmark.captioning.tags_captioner import TagsCaptioner
from earmark.captioning.transformers_captioner import TransformersCaptioner
from earmark.errors import EarmarkError
from earmark.evidence.object_detector import ObjectTagger
from earmark.models import ModelStore
from earmark.registry import Registry

PROMPT_TOKENS = 1024
"""Tokens a conversation has room for beside them: a prompt, and an answer of the usual length."""

WAYS = "--vlm URL, --gguf FILE, --transformers NAME or --replay FILE"

CAPTIONERS: Registry[Callable[..., Captioner]] = Registry(
    "earmark.captioners",
    {
        "tags": TagsCaptioner,
        "openai": OpenAICaptioner,
        "local": LocalCaptioner,
        "transformers": TransformersCaptioner,
        "replay": Replay,
    },
    kind="captioner",
)
"""Every way to be answered, by name; a captioner of another package is made with `model=`, or with
nothing. A batch is not among them: its answers come another day."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model to ask, in plain values; nothing chosen means `tags`."""

    server: str | None = None
    """Address of a server that speaks the OpenAI chat API."""
    model: str | None = None
    """Its name there; where there is only one it need not be said."""
    gguf: Path | None = None
    """A GGUF file to run in this process."""
    mmproj: Path | None = None
    """Its picture encoder; None takes the one beside it."""
    transformers: str | None = None
    """A Qwen3-VL checkpoint to run in this process: a folder, or a name on the model hub."""
    replay: Path | None = None
    """A JSONL file of answers."""
    plugin: str | None = None
    """A captioner that another package registers, by name."""

    def __post_init__(self) -> None:
        ways = (self.server, self.gguf, self.transformers, self.replay, self.plugin)
        if sum(way is not None for way in ways) > 1:
            raise ValueError(f"only one model can be asked: give one of {WAYS}")
        if self.model and not any(ways):
            raise ValueError(f"--model {self.model} needs to know where it is: give --vlm URL")

    def captioner(
        self,
        *,
        concurrency: int,
        tokens: int,
        api_key: str | None = None,
        store: ModelStore | None = None,
    ) -> Captioner:
        """The captioner that was chosen.

        Args:
            concurrency: Calls in flight.
            tokens: The most that the pictures, or an unusually long answer, of one call take.
            api_key: For a server that wants one.
            store: Where an object detector is looked for; the user's own store if not given.

        Raises:
            CallError: the server is to say which model it serves, and does not.
            EarmarkError: a file is missing, or there are several to choose from.
        """
        if self.server:
            model = self.model or _only_model(self.server, api_key)
            return OpenAICaptioner(self.server, model, api_key=api_key)
        if self.gguf:
            mmproj = self.mmproj or _mmproj_beside(self.gguf)
            context = max(CONTEXT, tokens + PROMPT_TOKENS)
            return LocalCaptioner(self.gguf, mmproj, parallel=concurrency, context=context)
        if self.transformers:
            return TransformersCaptioner(self.transformers)
        if self.replay:
            return Replay.load(self.replay, model=self.model or "replay")
        if self.plugin:
            return CAPTIONERS.named(self.plugin)(**({"model": self.model} if self.model else {}))
        return TagsCaptioner(look=_object_tagger(store or ModelStore()))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ModelChoice:
        """What `to_json` wrote."""
        files = {name: Path(plain[name]) for name in ("gguf", "mmproj", "replay") if plain[name]}
        return cls(**{**plain, **files})

    def to_json(self) -> dict[str, str | None]:
        """The choice as plain values."""
        return {name: None if v is None else str(v) for name, v in asdict(self).items()}


def _object_tagger(store: ModelStore) -> ObjectTagger | None:
    """Names what is seen where `earmark models get efficientdet-lite0` was run; else None."""
    name = "efficientdet-lite0"
    is_here = store.state(name) == "here" and find_spec("ai_edge_litert") is not None
    return ObjectTagger(weights=store.find(name)) if is_here else None


def _only_model(url: str, api_key: str | None) -> str:
    served = OpenAICaptioner(url, "", api_key=api_key).endpoint.models()
    if len(served) != 1:
        raise EarmarkError(
            f"{url} serves {', '.join(served) or 'no models'}: say which one with --model NAME"
        )
    return served[0]


def _mmproj_beside(gguf: Path) -> Path:
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
