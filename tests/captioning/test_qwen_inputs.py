"""What goes into Qwen3-VL, beside what the processor of transformers itself would put in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earmark.captioning.local_captioners import _Checkpoint
from earmark.captioning.request import Question
from earmark.errors import CallRejected
from earmark.media import Frame
from stills import ask_about

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def loaded(checkpoint):
    return _Checkpoint(str(checkpoint))


@pytest.fixture(scope="module")
def processor(loaded):
    """The class itself; it wants a video processor, which needs torchvision, and gets none."""
    from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor

    class WithoutVideo(Qwen3VLProcessor):
        def check_argument_for_proper_class(self, argument_name, argument):
            if argument is not None:
                super().check_argument_for_proper_class(argument_name, argument)

    template = loaded.tokenizer.chat_template
    return WithoutVideo(loaded.pictures, loaded.tokenizer, None, chat_template=template)


def showing(sizes, *, prompt="What is done here?"):
    """A request that shows noise in each of `sizes`, wide by high."""
    rng = np.random.default_rng(3)
    noise = [rng.integers(0, 256, (high, wide, 3), dtype=np.uint8) for wide, high in sizes]
    times = tuple(0.5 * (place + 1) for place in range(len(sizes)))
    frames = tuple(Frame(time, rgb) for time, rgb in zip(times, noise, strict=True))
    return replace(ask_about(times, frames=False, prompt=prompt), frames=frames)


def content_of(request):
    """The conversation as a user of the processor writes it."""
    shown = [{"type": "image", "image": frame.rgb} for frame in request.frames]
    if len(shown) > 1:
        names = [f"0:00:{frame.time:04.1f}:" for frame in request.frames]
        shown = [
            part
            for name, image in zip(names, shown, strict=True)
            for part in ({"type": "text", "text": name}, image)
        ]
    return [*shown, {"type": "text", "text": request.prompt}]


@pytest.mark.parametrize(
    "sizes",
    [[(64, 64)], [(640, 352)], [(352, 640)], [(33, 65)], [(64, 96), (128, 64), (200, 200)]],
    ids=["one patch", "wide", "tall", "no multiple", "three of three sizes"],
)
@pytest.mark.parametrize(
    "prompt", ["What is done here?", "Was passiert? 何が起きていますか\n👋 the"]
)
def test_every_token_and_pixel_is_as_the_processor_makes_it(loaded, processor, sizes, prompt):
    request = showing(sizes, prompt=prompt)
    ours = loaded.inputs(request)
    theirs = processor.apply_chat_template(
        [{"role": "user", "content": content_of(request)}],
        tokenize=True,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    assert set(ours) == set(theirs)
    assert ours["input_ids"].tolist() == theirs["input_ids"].tolist()
    for name, values in theirs.items():
        assert ours[name].shape == values.shape
        assert (ours[name] == values).all(), name
    pads = int((ours["input_ids"] == loaded.picture_id).sum())
    assert pads == sum(max(1, round(w / 32)) * max(1, round(h / 32)) for w, h in sizes)


def test_a_temperature_of_its_own_is_the_checkpoints(loaded):
    """A checkpoint that asks for wild guesses gets them unless told otherwise."""
    torch = pytest.importorskip("torch")
    own = loaded.weights.generation_config
    before = own.do_sample, own.temperature
    own.do_sample, own.temperature = True, 100.0
    request = showing([(64, 64)])
    try:
        inputs, said = loaded.inputs(request), {}
        for warmth in (0.0, None):
            question = Question(answer_tokens=24, temperature=warmth)
            said[warmth] = set()
            for seed in range(3):
                torch.manual_seed(seed)
                tokens, _ = loaded.generate(inputs, question, seconds=600.0)
                said[warmth].add(tuple(tokens))
    finally:
        own.do_sample, own.temperature = before
    assert (len(said[0.0]), len(said[None])) == (1, 3)


def test_a_prompt_with_the_sign_of_a_picture_in_it_is_refused(loaded):
    with pytest.raises(CallRejected, match="room for 2 pictures, not 1"):
        loaded.inputs(showing([(64, 64)], prompt="What is <|image_pad|>?"))
