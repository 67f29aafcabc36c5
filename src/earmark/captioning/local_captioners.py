"""Vision models that run in this process, loaded at the first call: GGUF files and Qwen3-VL."""

from __future__ import annotations

import secrets
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from earmark.captioning.captioner import CONTEXT
from earmark.captioning.chat_protocol import chat_content, read_text
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.request import Answer, Question, Request
from earmark.errors import CallRejected, CallTimeout, MissingExtra
from earmark.media.child_process import cores
from earmark.models import require


class LocalCaptioner:
    """Runs a vision model from a GGUF file and its mmproj file.

    llama.cpp serves them on a local port whose key only this process has, so that a call can time
    out and be cancelled like any other.
    """

    def __init__(
        self,
        model_path: Path,
        mmproj_path: Path,
        threads: int | None = None,
        parallel: int = 1,
        context: int = CONTEXT,
    ) -> None:
        """`threads` default to one fewer than the cores; `context` is in tokens, of each call."""
        # Absolute, since a worker may have been started in another folder.
        self.model_path, self.mmproj_path = model_path.absolute(), mmproj_path.absolute()
        self.threads = threads or max(1, cores() - 1)  # one core decodes frames
        self.model = model_path.stem
        self.at_once = parallel  # further calls would wait and time out
        self.context = context
        self._lock = threading.Lock()
        self._served: tuple[Any, OpenAICaptioner] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        paths = self.model_path, self.mmproj_path
        return LocalCaptioner, (*paths, self.threads, self.at_once, self.context)

    def check(self) -> None:
        for path, what in ((self.model_path, "model"), (self.mmproj_path, "picture encoder")):
            if not path.is_file():
                raise CallRejected(
                    f"there is no {what} at {path}; a GGUF model needs both of its files"
                )
            with path.open("rb") as file:
                if file.read(4) != b"GGUF":
                    raise CallRejected(
                        f"{path.name} is not a GGUF file, so it cannot be the {what}"
                    )
        # Imported, not only looked up: a library that cannot be loaded is found before listening.
        try:
            import xllamacpp  # noqa: F401
        except ImportError as error:
            raise MissingExtra(
                f"running a GGUF file needs xllamacpp ({error}): pip install 'earmark[local]'"
            ) from error

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        with self._lock:
            if self._served is None:
                self.check()
                self._served = self._serve()
            _, captioner = self._served
        return captioner(request, timeout=timeout)

    def _serve(self) -> tuple[Any, OpenAICaptioner]:
        import xllamacpp

        key = secrets.token_hex(16)
        params = xllamacpp.CommonParams()
        params.model.path = str(self.model_path)
        params.mmproj.path = str(self.mmproj_path)
        params.model_alias = {self.model}
        params.api_keys = [key]
        params.n_parallel = self.at_once
        params.n_ctx = self.context * self.at_once
        params.cpuparams.n_threads = self.threads
        params.cpuparams_batch.n_threads = self.threads
        params.verbosity = -1
        params.ui = False
        try:
            server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise CallRejected(
                f"llama.cpp cannot load {self.model_path.name} with {self.mmproj_path.name}; "
                f"are they a vision model and its own mmproj file, and is there memory for them?"
            ) from error
        return server, OpenAICaptioner(server.listening_address, self.model, api_key=key)


class TransformersCaptioner:
    """Runs a Qwen3-VL checkpoint, one request at a time, on a GPU if there is one.

    The prompt states the schema; decoding does not enforce it.
    """

    def __init__(self, source: str | Path) -> None:
        """`source` is a folder or a name on the model hub."""
        path = Path(source)
        # Absolute, since a worker may have been started in another folder.
        self.source = str(path.absolute() if path.exists() else source)
        self.model = path.name if path.exists() else self.source
        self.at_once = 1  # a lock serialises calls; waiting for it is not part of the timeout
        self._lock = threading.Lock()
        self._loaded: _Checkpoint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return TransformersCaptioner, (self.source,)

    def check(self) -> None:
        for library in ("torch", "transformers", "PIL"):
            require(library, what="running Qwen3-VL in this process", extra="transformers")
        path = Path(self.source)
        if (path.is_absolute() or path.exists()) and not (path / "config.json").is_file():
            raise CallRejected(f"there is no checkpoint in {path}: it has no config.json")

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        if not request.frames:
            raise ValueError("a vision model needs frames to look at; see Request.showing")
        with self._lock:
            if self._loaded is None:
                self.check()
                self._loaded = _Checkpoint(self.source)
            started = time.monotonic()
            inputs = self._loaded.inputs(request)
            generated, finish = self._loaded.generate(inputs, request.question, seconds=timeout)
            latency = time.monotonic() - started
        if finish == "time":
            raise CallTimeout(f"{self.model} did not finish its answer in time")
        words = str(self._loaded.tokenizer.decode(generated, skip_special_tokens=True))
        text, data = read_text(words, request.question.schema, finish=finish)
        return Answer(
            text=text,
            model=self.model,
            data=data,
            prompt_tokens=int(inputs["input_ids"].shape[1]),
            completion_tokens=len(generated),
            latency=latency,
            finish=finish,
        )


class _Checkpoint:
    # Not AutoProcessor: the one of Qwen3-VL also loads a video processor, which needs torchvision.

    def __init__(self, source: str) -> None:
        import torch

        transformers: Any = import_module("transformers")
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
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
        content = chat_content(request, [{"type": "image"}] * len(request.frames))
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        pixels = self.pictures(images=[frame.rgb for frame in request.frames], return_tensors="pt")
        placeholder = self.tokenizer.convert_ids_to_tokens(self.picture_id)
        first, *pieces = text.split(placeholder)
        counts = (pixels["image_grid_thw"].prod(dim=1) // self.pictures.merge_size**2).tolist()
        if len(pieces) != len(counts):
            raise CallRejected(
                f"the chat template made room for {len(pieces)} pictures, not {len(counts)}"
            )
        for count, piece in zip(counts, pieces, strict=True):
            first += placeholder * count + piece
        tokens = self.tokenizer(first, return_tensors="pt")
        token_types = (tokens["input_ids"] == self.picture_id).int()
        inputs = {**tokens, **pixels, "mm_token_type_ids": token_types}
        return {name: value.to(self.device) for name, value in inputs.items()}

    def generate(
        self, inputs: dict[str, Any], question: Question, *, seconds: float
    ) -> tuple[list[int], str]:
        """The tokens of the answer, and why they end: `stop`, `length` or `time`."""
        import torch

        sampling: dict[str, Any] = {}  # the checkpoint's default
        if question.temperature is not None:
            sampling["do_sample"] = question.temperature > 0
            if question.temperature > 0:
                sampling["temperature"] = question.temperature
        limits = {"max_new_tokens": question.answer_tokens, "max_time": seconds}
        with torch.inference_mode():
            whole = self.weights.generate(**inputs, **limits, **sampling)
        tokens: list[int] = whole[0, inputs["input_ids"].shape[1] :].tolist()
        ends = self.weights.generation_config.eos_token_id
        ends = [*(ends if isinstance(ends, list) else [ends]), self.tokenizer.eos_token_id]
        if tokens and tokens[-1] in ends:
            return tokens, "stop"
        return tokens, "length" if len(tokens) >= question.answer_tokens else "time"
