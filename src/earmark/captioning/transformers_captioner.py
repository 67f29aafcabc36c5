from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from earmark.captioning.chat_protocol import read_text, with_times
from earmark.captioning.request import Answer, Request
from earmark.errors import CallRejected, CallTimeout, MissingExtra

LIBRARIES = ("torch", "transformers", "PIL")


class TransformersCaptioner:
    """Runs a Qwen3-VL checkpoint; the weights are loaded at the first call.

    One request is answered at a time. The prompt states the schema; decoding does not enforce it.
    """

    def __init__(self, source: str | Path, device: str | None = None) -> None:
        """`source` is a folder or a name on the model hub; no `device` means a GPU if any."""
        path = Path(source)
        # Absolute, since a worker may have been started in another folder.
        self.source = str(path.absolute() if path.exists() else source)
        self.device = device
        self.model = path.name if path.exists() else self.source
        self.at_once = 1  # a lock serialises calls; waiting for it is not part of the timeout
        self._lock = threading.Lock()
        self._loaded: _Checkpoint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return TransformersCaptioner, (self.source, self.device)

    def check(self) -> None:
        # Looked up only: importing them takes seconds.
        if any(importlib.util.find_spec(library) is None for library in LIBRARIES):
            raise MissingExtra(
                "running Qwen3-VL in process needs PyTorch and transformers: "
                "pip install 'earmark[transformers]'"
            )
        path = Path(self.source)
        if (path.is_absolute() or path.exists()) and not (path / "config.json").is_file():
            raise CallRejected(f"there is no checkpoint in {path}: it has no config.json")

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        if not request.frames:
            raise ValueError("a vision model needs frames to look at; see Request.showing")
        with self._lock:
            return self._answer(request, timeout)

    def _answer(self, request: Request, timeout: float) -> Answer:
        if self._loaded is None:
            self.check()
            self._loaded = _Checkpoint(self.source, self.device)
        started = time.monotonic()
        inputs = self._loaded.inputs(request)
        prompt_tokens = int(inputs["input_ids"].shape[1])
        generated = self._loaded.generate(inputs, request, seconds=timeout)
        finish = self._loaded.finish(generated, request)
        if finish == "time":
            raise CallTimeout(f"{self.model} did not finish its answer in time")
        text, data = read_text(self._loaded.text(generated), request.question.schema, finish=finish)
        return Answer(
            text=text,
            model=self.model,
            data=data,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(generated),
            latency=time.monotonic() - started,
            form="images",
            finish=finish,
        )


class _Checkpoint:
    def __init__(self, source: str, device: str | None) -> None:
        import torch

        transformers: Any = importlib.import_module("transformers")
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            self.pictures = transformers.AutoImageProcessor.from_pretrained(source, backend="pil")
            weights = transformers.AutoModelForImageTextToText.from_pretrained(source, dtype="auto")
        except (OSError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CallRejected(f"transformers cannot load {source}: {reason}") from error
        if not self.tokenizer.chat_template:
            raise CallRejected(f"{source} has no chat template, so it cannot be asked a question")
        self.weights: Any = weights.to(self.device).eval()
        self.picture_id = int(self.weights.config.image_token_id)

    def inputs(self, request: Request) -> dict[str, Any]:
        shown = with_times([{"type": "image"}] * len(request.frames), request.frames)
        content = [*shown, {"type": "text", "text": request.text}]
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        pixels = self.pictures(images=[frame.rgb for frame in request.frames], return_tensors="pt")
        counts = pixels["image_grid_thw"].prod(dim=1) // self.pictures.merge_size**2
        tokens = self.tokenizer(
            self._expand_placeholders(text, counts.tolist()), return_tensors="pt"
        )
        token_types = (tokens["input_ids"] == self.picture_id).int()
        inputs = {**tokens, **pixels, "mm_token_type_ids": token_types}
        return {name: value.to(self.device) for name, value in inputs.items()}

    def _expand_placeholders(self, text: str, counts: Sequence[int]) -> str:
        placeholder = self.tokenizer.convert_ids_to_tokens(self.picture_id)
        pieces = text.split(placeholder)
        if len(pieces) != len(counts) + 1:
            raise CallRejected(
                f"the chat template made room for {len(pieces) - 1} pictures, not {len(counts)}"
            )
        expanded = [
            piece + placeholder * count for piece, count in zip(pieces, counts, strict=False)
        ]
        return "".join(expanded) + pieces[-1]

    def generate(self, inputs: dict[str, Any], request: Request, *, seconds: float) -> list[int]:
        import torch

        sampling: dict[str, Any] = {}  # the checkpoint's default
        if request.question.temperature == 0:
            sampling = {"do_sample": False}
        elif request.question.temperature is not None:
            sampling = {"do_sample": True, "temperature": request.question.temperature}
        with torch.inference_mode():
            whole = self.weights.generate(
                **inputs,
                max_new_tokens=request.question.answer_tokens,
                max_time=seconds,
                **sampling,
            )
        tokens: list[int] = whole[0, inputs["input_ids"].shape[1] :].tolist()
        return tokens

    def finish(self, generated: Sequence[int], request: Request) -> str:
        """`stop`, `length`, or `time` if time ran out."""
        ends = self.weights.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        if generated and (generated[-1] in ends or generated[-1] == self.tokenizer.eos_token_id):
            return "stop"
        return "length" if len(generated) >= request.question.answer_tokens else "time"

    def text(self, generated: Sequence[int]) -> str:
        return str(self.tokenizer.decode(generated, skip_special_tokens=True))
