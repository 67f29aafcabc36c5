"""The choice of a model in plain values, and the captioner it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.models.registry import Registry
from earmark.redaction import redact_url

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner

CONTEXT = 4096
"""Context length in tokens of a model in this process, unless its pictures need more."""

PROMPT_TOKENS = 1024
"""Tokens of context beside the pictures: a prompt, and an answer of the usual length."""

MODEL_OPTIONS = (
    "--vlm URL, --gguf FILE, --transformers NAME or --replay FILE "
    "(in Python: server, gguf, transformers or replay)"
)

CAPTIONERS: Registry[Callable[..., Any]] = Registry(
    "earmark.captioners",
    {
        "tags": "earmark.captioning.captioner:TagsCaptioner",
        "openai": "earmark.captioning.openai_captioner:OpenAICaptioner",
        "local": "earmark.captioning.llama_cpp:LocalCaptioner",
        "transformers": "earmark.captioning.transformers_captioner:TransformersCaptioner",
        "replay": "earmark.captioning.replay:Replay",
    },
    kind="captioner",
)
"""All captioners by name; one of another package is made with `model=`, or with no argument. Batch
files are not among them, since their answers come later."""


FILE_FIELDS = ("gguf", "mmproj", "replay")
"""Fields that are paths."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model to call, in plain values; without any, `tags`."""

    server: str | None = None
    """Address of a server that speaks the OpenAI chat API."""
    model: str | None = None
    """Its name on the server; may be None if the server has only one."""
    gguf: Path | None = None
    """A GGUF file to run in this process."""
    mmproj: Path | None = None
    """Its image encoder; None takes the one in the same folder."""
    transformers: str | Path | None = None
    """A Qwen3-VL checkpoint to run in this process: a folder, or a name on the model hub."""
    replay: Path | None = None
    """A JSONL file of answers."""
    plugin: str | None = None
    """A captioner that another package registers, by name."""

    def __post_init__(self) -> None:
        for name in FILE_FIELDS:  # a path may be given as text
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else Path(value))
        choices = (self.server, self.gguf, self.transformers, self.replay, self.plugin)
        if sum(choice is not None for choice in choices) > 1:
            raise ValueError(f"only one model can be asked: give one of {MODEL_OPTIONS}")
        if self.model and not any(choices):
            raise ValueError(
                f"--model {self.model} needs to know where it is: give --vlm URL "
                "(in Python: server=URL)"
            )

    def captioner(self, *, concurrency: int, tokens: int, api_key: str | None = None) -> Captioner:
        """The captioner that was chosen.

        `tokens` are the most that the pictures, or a very long answer, of one call take.

        Raises:
            CallError: no model is named, and the server does not list its models.
            EarmarkError: a file is missing, or there are several to choose from.
        """
        made: Captioner
        if self.server:
            model = self.model or _only_model(self.server, api_key)
            made = CAPTIONERS["openai"](self.server, model, api_key=api_key)
        elif self.gguf:
            mmproj = self.mmproj or _mmproj_beside(self.gguf)
            context = max(CONTEXT, tokens + PROMPT_TOKENS)
            made = CAPTIONERS["local"](self.gguf, mmproj, parallel=concurrency, context=context)
        elif self.transformers:
            made = CAPTIONERS["transformers"](self.transformers)
        elif self.replay:
            from earmark.captioning.replay import Replay

            made = Replay.load(self.replay, model=self.model or "replay")
        elif self.plugin:
            made = CAPTIONERS.named(self.plugin)(**({"model": self.model} if self.model else {}))
        else:
            made = CAPTIONERS["tags"]()
        return made

    def to_json(self) -> dict[str, str | None]:
        """The fields as plain values, without secrets in addresses."""
        return {
            name: None if value is None else redact_url(str(value))
            for name, value in asdict(self).items()
        }


def _only_model(url: str, api_key: str | None) -> str:
    endpoint = CAPTIONERS["openai"](url, "", api_key=api_key).endpoint
    served: list[str] = endpoint.models()
    if len(served) != 1:
        names = ", ".join(served) or "no models"
        raise EarmarkError(f"{endpoint.address} serves {names}: say which one with --model NAME")
    return served[0]


def _mmproj_beside(gguf: Path) -> Path:
    """The only mmproj file in the model's folder."""
    if not gguf.is_file():
        raise EarmarkError(f"there is no model at {gguf}; check the path given with --gguf")
    found = sorted(path for path in gguf.parent.glob("*mmproj*.gguf") if path != gguf)
    if len(found) != 1:
        raise EarmarkError(
            f"{gguf.name} needs its picture encoder: {len(found)} mmproj files lie beside it; "
            "say which with --mmproj FILE"
        )
    return found[0]
