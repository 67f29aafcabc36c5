"""Finds models to call: servers on this machine, and libraries that run one in this process."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import numpy as np

from earmark.captioning.openai_captioner import PROBE_PIXELS, probe_pictures
from earmark.captioning.openai_endpoint import Endpoint
from earmark.errors import CallError, CallTimeout
from earmark.media import Frame
from earmark.redaction import redact_url

DEFAULT_ADDRESSES = {
    "vLLM": "http://127.0.0.1:8000/v1",
    "SGLang": "http://127.0.0.1:30000/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
    "Ollama": "http://127.0.0.1:11434/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "LiteLLM": "http://127.0.0.1:4000/v1",
    "Xinference": "http://127.0.0.1:9997/v1",
    "LMDeploy": "http://127.0.0.1:23333/v1",
    "Jan": "http://127.0.0.1:1337/v1",
    "KoboldCpp": "http://127.0.0.1:5001/v1",
}
"""Where each server listens by default."""

EXTRAS = {
    "local": ("xllamacpp",),
    "transformers": ("torch", "transformers"),
    "parquet": ("pyarrow",),
    "s3": ("s3fs",),
}
"""Optional extras, and the libraries each needs."""

State = Literal["ready", "no pictures", "not asked", "silent", "unwell", "installed", "missing"]


@dataclass(frozen=True, slots=True)
class Discovery:
    """One server, model or extra, and its state."""

    kind: Literal["server", "extra"]
    name: str
    """The program that uses that port by default, or the extra."""
    state: State
    address: str = ""
    model: str = ""
    detail: str = ""
    """How the state is known, or what to do, in a line."""


def doctor(
    addresses: Mapping[str, str] = DEFAULT_ADDRESSES,
    *,
    timeout: float = 20.0,
    models_asked: int = 4,
    extras: Mapping[str, Sequence[str]] = EXTRAS,
) -> list[Discovery]:
    """One finding for each model of each server and for each extra.

    A model is ready if it looks at a tiny picture. Only the first `models_asked` models of a
    server are called, since some servers load a model for each call. A port where nothing listens
    is one finding. Servers are probed in parallel.
    """
    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        probes = [
            pool.submit(_probe_server, name, url, timeout=timeout, models_asked=models_asked)
            for name, url in addresses.items()
        ]
        servers = [finding for future in probes for finding in future.result()]
    return servers + [_check_extra(name, libraries) for name, libraries in extras.items()]


def _probe_server(name: str, url: str, *, timeout: float, models_asked: int) -> list[Discovery]:
    endpoint, name, url = Endpoint(url), redact_url(name), redact_url(url)
    try:
        models = endpoint.models(timeout=min(2.0, timeout))
    except CallError as error:
        if isinstance(error, CallTimeout) and "cannot be reached" in str(error):
            return [Discovery("server", name, "silent", url, detail="nothing listens there")]
        return [Discovery("server", name, "unwell", url, detail=str(error))]
    if not models:
        return [Discovery("server", name, "unwell", url, detail="it serves no model")]
    probed = [
        _probe_model(name, endpoint, model, timeout=timeout) for model in models[:models_asked]
    ]
    rest = [Discovery("server", name, "not asked", url, model) for model in models[models_asked:]]
    return probed + rest


def _probe_model(name: str, endpoint: Endpoint, model: str, *, timeout: float) -> Discovery:
    """Whether `model` looks at a picture."""
    url = redact_url(endpoint.url)
    picture = Frame(0.0, np.full((PROBE_PIXELS, PROBE_PIXELS, 3), 128, dtype=np.uint8))
    try:
        result = probe_pictures(endpoint, model, picture, timeout=timeout)
    except CallError as error:
        return Discovery("server", name, "unwell", url, model, str(error))
    state: State = "ready" if result.passed else "no pictures"
    return Discovery("server", name, state, url, model, result.reason)


def _check_extra(name: str, libraries: Sequence[str]) -> Discovery:
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        cure = f"pip install 'earmark[{name}]'"
        return Discovery("extra", name, "missing", detail=f"no {', '.join(missing)}: {cure}")
    found = ", ".join(f"{library} {version(library)}" for library in libraries)
    return Discovery("extra", name, "installed", detail=found)
