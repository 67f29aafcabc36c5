"""Asks a vision model about the picked windows: prompts, frames, clients, retries, allowance."""

from earmark.call.allowance import PATCH, fit, image_tokens, shrink, video_tokens
from earmark.call.ask import Failure, Tally, ask_all
from earmark.call.batch import Results, read_batch, write_batch
from earmark.call.captioner import Captioner
from earmark.call.doctor import Finding, doctor
from earmark.call.limits import Limits
from earmark.call.local import LocalCaptioner
from earmark.call.prompt import Prompt
from earmark.call.qwen import TransformersCaptioner
from earmark.call.replay import Replay
from earmark.call.request import Answer, Request
from earmark.call.server import OpenAICaptioner
from earmark.call.tags import TagsCaptioner

CAPTIONERS = {
    "tags": TagsCaptioner,
    "openai": OpenAICaptioner,
    "local": LocalCaptioner,
    "transformers": TransformersCaptioner,
    "replay": Replay,
}
"""Every way to be answered, by the name it goes by; `batch` is not among them, since its answers
come another day."""

__all__ = [
    "CAPTIONERS",
    "PATCH",
    "Answer",
    "Captioner",
    "Failure",
    "Finding",
    "Limits",
    "LocalCaptioner",
    "OpenAICaptioner",
    "Prompt",
    "Replay",
    "Request",
    "Results",
    "TagsCaptioner",
    "Tally",
    "TransformersCaptioner",
    "ask_all",
    "doctor",
    "fit",
    "image_tokens",
    "read_batch",
    "shrink",
    "video_tokens",
    "write_batch",
]
