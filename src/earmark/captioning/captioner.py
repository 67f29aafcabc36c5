"""The captioner protocol, and the captioner that an address names.

http://HOST/v1#NAME   a server with the OpenAI API; without #NAME, its only model
gguf:FILE             a GGUF file in this process; gguf:FILE#MMPROJ names its picture encoder
hf:NAME               a Qwen3-VL checkpoint in this process: a folder, or a name on the hub
replay:FILE           answers from a JSONL file; replay:FILE#NAME names their model
KIND, KIND:NAME       a captioner that another package registers
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from earmark.captioning.request import TAGS_MODEL, Answer, Request
from earmark.errors import EarmarkError
from earmark.models.registry import Registry

if TYPE_CHECKING:
    from earmark.evidence.picture_evidence import PictureEvidence

CONTEXT, PROMPT_TOKENS = 4096, 1024
"""Least context of a local model, and its share for the prompt, in tokens."""

FORMS = "http://HOST/v1#NAME, gguf:FILE, hf:NAME or replay:FILE"

CAPTIONERS: Registry[Callable[..., Any]] = Registry(
    "earmark.captioners",
    {
        "tags": "earmark.captioning.captioner:TagsCaptioner",
        "http": "earmark.captioning.openai_captioner:OpenAICaptioner",
        "gguf": "earmark.captioning.local_captioners:LocalCaptioner",
        "hf": "earmark.captioning.local_captioners:TransformersCaptioner",
        "replay": "earmark.captioning.answer_files:load_replay",
    },
    kind="captioner",
)
"""A captioner from another package is called with `model=` or without arguments. Batch files are
not listed, since their answers come later."""


class Captioner(Protocol):
    """Answers one request about one window.

    It is called from several threads at once, and pickled to run in other processes. It returns a
    whole answer within about `timeout` seconds, or raises: `CallTimeout` if a retry may help (too
    slow, too busy, cut off), `CallRejected` if not, `UnreadableAnswer` if the answer cannot be used
    (blank, or not the JSON that was asked for), `MediaError` if it decodes the pictures itself and
    cannot. It makes one attempt; the caller retries. A caption is never blank and has `data`
    exactly when the request has a schema; `form` says how the frames were sent, and `kind` whether
    a model looked at all. The request is not modified.
    """

    @property
    def model(self) -> str:
        """The model's name, part of a request's identity."""
        ...

    @property
    def at_once(self) -> int | None:
        """Calls it can work on side by side; None leaves it to the limits.

        0 means that it answers at once, asks nobody and costs nothing: it is called in the calling
        thread, one request after another.
        """
        ...

    def check(self) -> None:
        """Raises, in one line, if no call could succeed; costs no call."""
        ...

    def __call__(self, request: Request, *, timeout: float) -> Answer: ...


@dataclass(frozen=True, slots=True)
class TagsCaptioner:
    """Returns the tags of the window as its answer; a schema is ignored.

    Objects among the request's evidence follow the names of the sounds.
    """

    model: str = TAGS_MODEL
    at_once: int | None = 0

    def check(self) -> None: ...

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        objects = (entry.text for entry in request.evidence if entry.kind == "seen")
        return Answer(
            text=", ".join(dict.fromkeys((*request.tags, *objects))),
            model=self.model,
            kind="tags",
            prompt_tokens=0,
            completion_tokens=0,
            form="none",
        )


@dataclass(frozen=True, slots=True)
class WrappedCaptioner:
    captioner: Captioner

    @property
    def model(self) -> str:
        return self.captioner.model

    @property
    def at_once(self) -> int | None:
        """Never 0, since the wrapping does work of its own."""
        return self.captioner.at_once or None

    def check(self) -> None:
        self.captioner.check()


@dataclass(frozen=True, slots=True)
class EvidenceCaptioner(WrappedCaptioner):
    look: PictureEvidence

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        evidence = self.look(request.frames, request.span)
        answer = self.captioner(replace(request, evidence=evidence), timeout=timeout)
        return replace(answer, evidence=evidence)


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
    model = ModelAddress.parse(text)
    make: Callable[..., Captioner] = CAPTIONERS.named(model.kind)
    if model.kind == "http":
        name = model.name or _only_model(model.target, api_key)
        return make(model.target, name, api_key=api_key)
    if model.kind == "gguf":
        file = Path(model.target)
        mmproj = Path(model.name) if model.name else _mmproj_beside(file)
        context = max(CONTEXT, tokens + PROMPT_TOKENS)
        return make(file, mmproj, parallel=concurrency, context=context)
    if model.kind == "hf":
        return make(model.target)
    if model.kind == "replay":
        return make(Path(model.target), model=model.name or "replay")
    return make(**({"model": model.target} if model.target else {}))


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
