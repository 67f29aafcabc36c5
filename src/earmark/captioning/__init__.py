"""Asks a vision model about the picked windows: prompts, frames, clients, retries, allowance."""

from earmark.captioning.captioner import Captioner
from earmark.captioning.discovery import Discovery, doctor
from earmark.captioning.dispatch import CallLog, dispatch
from earmark.captioning.limits import Limits
from earmark.captioning.llama_cpp import LocalCaptioner
from earmark.captioning.model_choice import CAPTIONERS, ModelChoice
from earmark.captioning.openai_batch import BatchResults, read_batch, write_batch
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.prompt import Prompt
from earmark.captioning.question import Question
from earmark.captioning.replay import Replay
from earmark.captioning.request import Answer, Request
from earmark.captioning.tags_captioner import TagsCaptioner
from earmark.captioning.transformers_captioner import TransformersCaptioner
from earmark.captioning.usage import Failure, Tally
from earmark.captioning.visual_tokens import PATCH, fit, image_tokens, shrink, video_tokens

__all__ = [
    "CAPTIONERS",
    "PATCH",
    "Answer",
    "BatchResults",
    "CallLog",
    "Captioner",
    "Discovery",
    "Failure",
    "Limits",
    "LocalCaptioner",
    "ModelChoice",
    "OpenAICaptioner",
    "Prompt",
    "Question",
    "Replay",
    "Request",
    "TagsCaptioner",
    "Tally",
    "TransformersCaptioner",
    "dispatch",
    "doctor",
    "fit",
    "image_tokens",
    "read_batch",
    "shrink",
    "video_tokens",
    "write_batch",
]
