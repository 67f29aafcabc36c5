"""The model named by a text such as `http://localhost:8000/v1#NAME`, and its captioner.

http://HOST/v1#NAME   a server with the OpenAI API; without #NAME, its only model
gguf:FILE             a GGUF file in this process; gguf:FILE#MMPROJ names its picture encoder
hf:NAME               a Qwen3-VL checkpoint in this process: a folder, or a name on the hub
replay:FILE           answers from a JSONL file; replay:FILE#NAME names their model
KIND, KIND:NAME       a captioner that another package registers
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.models.registry import Registry

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner

CONTEXT = 4096

PROMPT_TOKENS = 1024

FORMS = "http://HOST/v1#NAME, gguf:FILE, hf:NAME or replay:FILE"

CAPTIONERS: Registry[Callable[..., Any]] = Registry(
    "earmark.captioners",
    {
        "tags": "earmark.captioning.captioner:TagsCaptioner",
        "http": "earmark.captioning.openai_captioner:OpenAICaptioner",
        "gguf": "earmark.captioning.llama_cpp:LocalCaptioner",
        "hf": "earmark.captioning.transformers_captioner:TransformersCaptioner",
        "replay": "earmark.captioning.replay:Replay",
    },
    kind="captioner",
)
"""One of another package is made with `model=`, or with no argument. Batch files are not among
them, since their answers come later.
"""


@dataclass(frozen=True, slots=True)
class ModelAddress:
    kind: str
    target: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str | None) -> ModelAddress:
        """The model named by `text`; None is `tags`, which asks no model.

        >>> ModelAddress.parse("http://localhost:8000/v1#Qwen3-VL-8B")
        ModelAddress(kind='http', target='http://localhost:8000/v1', name='Qwen3-VL-8B')
        """
        if text is None:
            return cls("tags")
        target, _, name = text.strip().partition("#")
        if target.startswith(("http://", "https://")):
            return cls("http", target, name)
        kind, _, target = target.partition(":")
        if kind not in CAPTIONERS or (kind in ("gguf", "hf", "replay") and not target):
            raise ValueError(f"{text!r} is no model: write {FORMS}")
        return cls(kind, target, name)

    @property
    def server(self) -> str | None:
        return self.target if self.kind == "http" else None


def make_captioner(
    text: str | None, *, concurrency: int, tokens: int, api_key: str | None = None
) -> Captioner:
    """`tokens` are the most that the pictures, or a very long answer, of one call take."""
    model, made = ModelAddress.parse(text), None
    make = CAPTIONERS.named(model.kind)
    if model.kind == "http":
        name = model.name or _only_model(model.target, api_key)
        made = make(model.target, name, api_key=api_key)
    elif model.kind == "gguf":
        file = Path(model.target)
        mmproj = Path(model.name) if model.name else _mmproj_beside(file)
        context = max(CONTEXT, tokens + PROMPT_TOKENS)
        made = make(file, mmproj, parallel=concurrency, context=context)
    elif model.kind == "hf":
        made = make(model.target)
    elif model.kind == "replay":
        from earmark.captioning.replay import Replay

        made = Replay.load(Path(model.target), model=model.name or "replay")
    else:
        made = make(**({"model": model.target} if model.target else {}))
    captioner: Captioner = made
    return captioner


def _only_model(url: str, api_key: str | None) -> str:
    endpoint = CAPTIONERS["http"](url, "", api_key=api_key).endpoint
    served: list[str] = endpoint.models()
    if len(served) != 1:
        names = ", ".join(served) or "no models"
        raise EarmarkError(f"{endpoint.address} serves {names}: add #NAME to the address of one")
    return served[0]


def _mmproj_beside(gguf: Path) -> Path:
    if not gguf.is_file():
        raise EarmarkError(f"there is no model at {gguf}; check the path after gguf:")
    files = sorted(path for path in gguf.parent.glob("*mmproj*.gguf") if path != gguf)
    if len(files) != 1:
        raise EarmarkError(
            f"{gguf.name} needs its picture encoder: {len(files)} mmproj files lie beside it; "
            "name it after a #, as gguf:FILE#MMPROJ"
        )
    return files[0]
