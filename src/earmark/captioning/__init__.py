"""Asks a vision model about the picked windows: prompts, frames, clients, retries, allowance."""

from earmark.captioning.captioner import Captioner
from earmark.captioning.discovery import Finding, doctor
from earmark.captioning.dispatch import Failure, Tally, ask_all
from earmark.captioning.limits import Limits
from earmark.captioning.llama_cpp import LocalCaptioner
from earmark.captioning.openai_batch import Results, read_batch, write_batch
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.prompt import Prompt
from earmark.captioning.replay import Replay
from earmark.captioning.request import Answer, Request
from earmark.captioning.tags_captioner import TagsCaptioner
from earmark.captioning.transformers_captioner import TransformersCaptioner
from earmark.captioning.visual_tokens import PATCH, fit, image_tokens, shrink, video_tokens

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
