from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import numpy as np

from earmark.captioning.openai_captioner import PROBE_PIXELS, Endpoint, probe
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

EXTRAS = {
    "local": ("xllamacpp",),
    "transformers": ("torch", "transformers"),
    "parquet": ("pyarrow",),
    "s3": ("s3fs",),
}

State = Literal["ready", "no pictures", "not asked", "silent", "unwell", "installed", "missing"]


@dataclass(frozen=True, slots=True)
class Discovery:
    kind: Literal["server", "extra"]
    name: str
    state: State
    address: str = ""
    model: str = ""
    detail: str = ""


def advice(findings: Sequence[Discovery]) -> str:
    """One line that says which options to use, or what to install."""
    for finding in findings:
        if finding.state == "ready":
            return f"use it with --model {finding.address}#{finding.model}"
    is_here = any(finding.name == "local" and finding.state == "installed" for finding in findings)
    cure = "" if is_here else ": pip install 'earmark[local]'"
    way = "the shortest way to a model is a GGUF file, with --model gguf:FILE"
    return f"no server on this machine accepts pictures; {way}{cure}"


def doctor(
    addresses: Mapping[str, str] = DEFAULT_ADDRESSES,
    *,
    timeout: float = 20.0,
    models_asked: int = 4,
    extras: Mapping[str, Sequence[str]] = EXTRAS,
) -> list[Discovery]:
    """Only `models_asked` models of a server are called: some load a model for each call."""
    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        probes = [
            pool.submit(_probe_server, name, url, timeout=timeout, models_asked=models_asked)
            for name, url in addresses.items()
        ]
        servers = [finding for future in probes for finding in future.result()]
    return servers + [_check_extra(name, libraries) for name, libraries in extras.items()]


def _probe_server(name: str, url: str, *, timeout: float, models_asked: int) -> list[Discovery]:
    endpoint = Endpoint(url)

    def finding(state: State, detail: str = "", model: str = "") -> Discovery:
        address = redact_url(endpoint.url)
        return Discovery("server", redact_url(name), state, address, model, detail)

    try:
        models = endpoint.models(timeout=min(2.0, timeout))
    except CallError as error:
        if isinstance(error, CallTimeout) and "cannot be reached" in str(error):
            return [finding("silent", "no server on this port")]
        return [finding("unwell", str(error))]
    if not models:
        return [finding("unwell", "it serves no model")]
    findings = []
    picture = Frame(0.0, np.full((PROBE_PIXELS, PROBE_PIXELS, 3), 128, dtype=np.uint8))
    for model in models[:models_asked]:
        try:
            is_ready, reason = probe(endpoint, model, picture, timeout=timeout)
        except CallError as error:
            findings.append(finding("unwell", str(error), model))
        else:
            findings.append(finding("ready" if is_ready else "no pictures", reason, model))
    return findings + [finding("not asked", model=model) for model in models[models_asked:]]


def _check_extra(name: str, libraries: Sequence[str]) -> Discovery:
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        cure = f"pip install 'earmark[{name}]'"
        return Discovery("extra", name, "missing", detail=f"no {', '.join(missing)}: {cure}")
    versions = ", ".join(f"{library} {version(library)}" for library in libraries)
    return Discovery("extra", name, "installed", detail=versions)
