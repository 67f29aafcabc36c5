"""Very small vision-language models with random weights: real formats, nonsense answers.

`write_gguf` makes the pair of files llama.cpp wants (a Qwen3-VL of two layers and its picture
encoder), `write_checkpoint` the folder transformers wants. Both speak bytes: one token a byte and
a few special ones, which they never write. The same seed gives the same weights. One that `says` a
word writes that wherever a grammar lets it write any, and so comes to an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

TEMPLATE = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{ message.content }}"
    "{%- else %}{%- for part in message.content %}"
    "{%- if part.type in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif part.type == 'text' %}{{ part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{ '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)

WIDTH = 64
"""Of the language model."""
HEAD = 32
LAYERS = 2
SIGHT = 32
"""Width of the picture encoder."""
PIXELS = 16
"""Along one side of a patch of the encoder; two by two of them make a token."""
GRID = 8
"""Patches along one side of the encoder's table of positions."""


def byte_tokens() -> list[str]:
    """A printable sign for each of the 256 bytes, as byte-level tokenizers write them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    signs = {byte: chr(byte) for byte in plain}
    others = [byte for byte in range(256) if byte not in signs]
    signs.update({byte: chr(256 + place) for place, byte in enumerate(others)})
    return [signs[byte] for byte in range(256)]


def vocabulary() -> list[str]:
    """Bytes, one pair of them so that there is something to merge, and the special tokens."""
    return [*byte_tokens(), "th", *SPECIAL]


def write_gguf(folder: Path, *, seed: int = 0, says: str = "") -> tuple[Path, Path]:
    """A language model and its picture encoder in `folder`, about 1 MB together.

    `says` is a word of letters that differ from each other, not "t".
    """
    rng = np.random.default_rng(seed)
    model, encoder = folder / "tiny.gguf", folder / "tiny-mmproj.gguf"
    quoted = f'"{says}"'
    follows = [*pairwise(quoted), ":t", "[{", "}]"] if says else []
    _write_language(model, rng, [(first, then) for first, then in follows])
    _write_encoder(encoder, rng)
    return model, encoder


def _write_language(
    path: Path, rng: np.random.Generator, follows: Sequence[tuple[str, str]] = ()
) -> None:
    """`follows` are pairs of signs of which it writes the second after the first, if it may."""
    import gguf

    words = vocabulary()
    writer = gguf.GGUFWriter(path, "qwen3vl")
    writer.add_block_count(LAYERS)
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(WIDTH // HEAD)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_sections([HEAD // 4, HEAD // 8, HEAD // 8, 0])
    writer.add_uint32("qwen3vl.n_deepstack_layers", 1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words)
    kinds = [gguf.TokenType.CONTROL if word in SPECIAL else gguf.TokenType.NORMAL for word in words]
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(words.index("<|im_end|>"))
    writer.add_pad_token_id(words.index("<|endoftext|>"))
    writer.add_chat_template(TEMPLATE)
    tensors = {
        "token_embd.weight": (len(words), WIDTH),
        "output.weight": (len(words), WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    for layer in range(LAYERS):
        tensors |= {
            f"blk.{layer}.attn_norm.weight": (WIDTH,),
            f"blk.{layer}.attn_q.weight": (WIDTH, WIDTH),
            f"blk.{layer}.attn_k.weight": (HEAD, WIDTH),
            f"blk.{layer}.attn_v.weight": (HEAD, WIDTH),
            f"blk.{layer}.attn_q_norm.weight": (HEAD,),
            f"blk.{layer}.attn_k_norm.weight": (HEAD,),
            f"blk.{layer}.attn_output.weight": (WIDTH, WIDTH),
            f"blk.{layer}.ffn_norm.weight": (WIDTH,),
            f"blk.{layer}.ffn_gate.weight": (2 * WIDTH, WIDTH),
            f"blk.{layer}.ffn_up.weight": (2 * WIDTH, WIDTH),
            f"blk.{layer}.ffn_down.weight": (WIDTH, 2 * WIDTH),
        }
    pairs = [(words.index(first), words.index(then)) for first, then in follows]
    _finish(writer, tensors, rng, pairs)


def _write_encoder(path: Path, rng: np.random.Generator) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type(gguf.GGUFType.MMPROJ)
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("qwen3vl_merger")
    writer.add_vision_projection_dim(WIDTH)
    writer.add_vision_image_size(GRID * PIXELS)
    writer.add_vision_patch_size(PIXELS)
    writer.add_vision_embedding_length(SIGHT)
    writer.add_vision_feed_forward_length(2 * SIGHT)
    writer.add_vision_block_count(LAYERS)
    writer.add_vision_head_count(2)
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_image_mean([0.5, 0.5, 0.5])
    writer.add_vision_image_std([0.5, 0.5, 0.5])
    writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(2)
    writer.add_array("clip.vision.is_deepstack_layers", [True, False])
    merged = 4 * SIGHT
    tensors: dict[str, tuple[int, ...]] = {
        "v.patch_embd.weight": (SIGHT, 3, PIXELS, PIXELS),
        "v.patch_embd.weight.1": (SIGHT, 3, PIXELS, PIXELS),
        "v.patch_embd.bias": (SIGHT,),
        "v.position_embd.weight": (GRID * GRID, SIGHT),
        "v.post_ln.weight": (SIGHT,),
        "v.post_ln.bias": (SIGHT,),
        **_dense("mm.0", merged, merged),
        **_dense("mm.2", WIDTH, merged),
        "v.deepstack.0.norm.weight": (merged,),
        "v.deepstack.0.norm.bias": (merged,),
        **_dense("v.deepstack.0.fc1", merged, merged),
        **_dense("v.deepstack.0.fc2", WIDTH, merged),
    }
    for layer in range(LAYERS):
        tensors |= {
            **{
                f"v.blk.{layer}.{norm}.{kind}": (SIGHT,)
                for norm in ("ln1", "ln2")
                for kind in ("weight", "bias")
            },
            **_dense(f"v.blk.{layer}.attn_qkv", 3 * SIGHT, SIGHT),
            **_dense(f"v.blk.{layer}.attn_out", SIGHT, SIGHT),
            **_dense(f"v.blk.{layer}.ffn_up", 2 * SIGHT, SIGHT),
            **_dense(f"v.blk.{layer}.ffn_down", SIGHT, 2 * SIGHT),
        }
    _finish(writer, tensors, rng)


def _dense(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _finish(
    writer: Any,
    tensors: dict[str, tuple[int, ...]],
    rng: np.random.Generator,
    follows: Sequence[tuple[int, int]] = (),
) -> None:
    for name, shape in tensors.items():
        spread = rng.normal(scale=0.3, size=shape).astype(np.float32)
        is_scale = name.endswith(("norm.weight", "ln.weight", "ln1.weight", "ln2.weight"))
        if name == "output.weight":
            spread[-len(SPECIAL) :] = 0.0  # never the likeliest: an answer is never empty
        for channel, (first, then) in enumerate(follows):  # one for each pair, louder than the rest
            if name == "token_embd.weight":
                spread[first, channel] += 400.0
            if name == "output.weight":
                spread[then, channel] += 3.0
        writer.add_tensor(name, spread + 1 if is_scale else spread)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """A Qwen3-VL checkpoint in `folder`: configuration, weights, tokenizer, picture settings."""
    import torch
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLForConditionalGeneration

    torch.manual_seed(seed)
    weights = Qwen3VLForConditionalGeneration(_configuration())
    with torch.no_grad():
        weights.lm_head.weight[-len(SPECIAL) :] = 0.0  # as above
    weights.generation_config.eos_token_id = vocabulary().index("<|im_end|>")
    weights.generation_config.pad_token_id = vocabulary().index("<|endoftext|>")
    weights.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    smallest = {"shortest_edge": 1024, "longest_edge": 1024 * 4096}
    Qwen2VLImageProcessorPil(patch_size=PIXELS, size=smallest).save_pretrained(folder)
    return folder


def _configuration() -> Any:
    from transformers import Qwen3VLConfig

    words = vocabulary()
    turns = {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_section": [HEAD // 4, HEAD // 8, HEAD // 8],
        "mrope_interleaved": True,
    }
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(words),
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": WIDTH // HEAD,
            "num_key_value_heads": 1,
            "head_dim": HEAD,
            "initializer_range": 0.3,
            "rope_parameters": turns,
        },
        vision_config={
            "depth": LAYERS,
            "hidden_size": SIGHT,
            "intermediate_size": 2 * SIGHT,
            "num_heads": 2,
            "out_hidden_size": WIDTH,
            "num_position_embeddings": GRID * GRID,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=words.index("<|image_pad|>"),
        video_token_id=words.index("<|video_pad|>"),
        vision_start_token_id=words.index("<|vision_start|>"),
        vision_end_token_id=words.index("<|vision_end|>"),
    )


def _tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [word for word in vocabulary() if word not in SPECIAL]
    pieces = models.BPE(
        vocab={word: place for place, word in enumerate(words)}, merges=[("t", "h")]
    )
    core = Tokenizer(pieces)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
    )
