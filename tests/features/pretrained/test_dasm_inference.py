"""What stands around DASM's network: prompt, base queries, their mask, temperature, padding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from earmark.errors import ModelMismatch
from earmark.features.pretrained.dasm_inference import DasmModel, query_mask, zero_padding_rows
from earmark.features.pretrained.query_encoder import QueryEncoder
from earmark.media import Sound

WIDTH, RATE = 16, 250


class SmallDecoder(nn.Module):
    """A network of DASM's form: queries attend to one another under a mask, then to the frames."""

    def __init__(self, *, kinds: int = 2) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.at_query = nn.ParameterList(
            nn.Parameter(torch.randn(4, WIDTH) + kind) for kind in range(kinds)
        )
        self.among = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.frames = nn.Linear(10, WIDTH)
        self.eval()

    def get_feature_extractor(self):
        return lambda sound: sound.reshape(len(sound), -1, 10)

    def forward(self, *, input, temp_w, pad_mask, query, query_type, tgt_mask):  # noqa: A002
        assert pad_mask is None and query_type in ("text", "audio")
        asked = query[None].expand(len(input), -1, -1)
        seen, _ = self.among(asked, asked, asked, attn_mask=tgt_mask)
        logits = torch.einsum("bqc,btc->bqt", seen, self.frames(input))
        return torch.sigmoid(logits / temp_w), None, {}


def embed(words: list[str]) -> torch.Tensor:
    """Embeddings that hang on the words alone."""
    assert all(word.startswith("sound of ") and word == word.lower() for word in words)
    rows = [np.random.default_rng(list(word.encode())).standard_normal(WIDTH) for word in words]
    return torch.tensor(np.array(rows), dtype=torch.float32)


def chunks(count: int = 2) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.standard_normal((count, 10 * RATE)).astype(np.float32)


def test_what_is_asked_beside_a_query_does_not_change_its_answer():
    model = DasmModel(SmallDecoder(), embed, "small", sample_rate=RATE)
    alone = model(chunks(), ("Chopping",))
    beside = model(chunks(), ("Water", "Chopping", "Drawer"))
    assert alone.shape == (2, 1, 250) and beside.shape == (2, 3, 250)
    np.testing.assert_allclose(beside[:, 1], alone[:, 0], atol=1e-6)
    assert abs(beside[:, 0] - beside[:, 1]).max() > 0.01


def test_the_mask_is_drawn():
    drawn = ["".join("x" if barred else "." for barred in row) for row in query_mask(2, 3)]
    assert drawn == ["..xxx", "..xxx", "...xx", "..x.x", "..xx."]


def test_base_queries_are_those_of_the_kind():
    network = SmallDecoder()
    text, audio = (
        DasmModel(network, embed, "s", query_type=kind, sample_rate=RATE)
        for kind in ("text", "audio")
    )
    assert abs(text(chunks(), ("tap",)) - audio(chunks(), ("tap",))).max() > 1e-4
    lone = SmallDecoder(kinds=1)
    with pytest.raises(ModelMismatch, match="no base queries of the kind 'audio'"):
        DasmModel(lone, embed, "s", query_type="audio")(chunks(), ("tap",))


def test_the_temperature_makes_frames_surer():
    cold, warm = (
        DasmModel(SmallDecoder(), embed, "s", temperature=t, sample_rate=RATE)(chunks(), ("tap",))
        for t in (0.1, 1.0)
    )
    assert abs(cold - 0.5).mean() > abs(warm - 0.5).mean()


def test_frames_past_the_end_are_silent():
    sound = chunks(1)
    sound[0, 1500:] = 0.0
    got = zero_padding_rows(np.ones((1, 2, 250), np.float32), sound)
    assert (got[0, :, :150] == 1).all() and (got[0, :, 150:] == 0).all()
    assert (
        zero_padding_rows(np.ones((1, 1, 4), np.float32), np.zeros((1, 8), np.float32)).sum() == 0
    )


def test_it_is_a_model_of_the_encoder(tmp_path):
    (tmp_path / "kitchen.txt").write_text("chopping vegetables\nwater running\n")
    model = DasmModel(SmallDecoder(), embed, "small", sample_rate=RATE)
    encoder = QueryEncoder(queries=str(tmp_path / "kitchen.txt"), model=model)
    sound = [Sound(chunks(1)[0], 0.0, RATE)]
    rows = np.concatenate([track.values for track in encoder.encode(sound)])
    assert rows.shape == (250, 2) and np.isfinite(rows).all()
    assert "small" in repr(model) and encoder.fingerprint() != ""


AUTHORS = json.loads((Path(__file__).parent / "dasm_authors.json").read_text())
"""The authors' inference on 6.3 of 10 s, with their network and random weights: what it gave its
network, what the network answered without a padding mask, and what came out in the end."""


class RecordedNetwork(nn.Module):
    """The authors' network as it was heard: it knows one question, and answers that."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.heard = kind, AUTHORS[kind]
        self.at_query = nn.ParameterList(
            nn.Parameter(seeded_rows([f"{name} {place}" for place in range(5)]))
            for name in ("text", "audio")
        )

    def get_feature_extractor(self):
        return lambda sound: sound

    def forward(self, *, input, temp_w, pad_mask, query, query_type, tgt_mask):  # noqa: A002
        assert input.shape == (1, 320_000) and query_type == self.kind and pad_mask is None
        assert temp_w == self.heard["temp_w"]
        np.testing.assert_allclose(query.numpy(), self.heard["query"], atol=1e-5)
        drawn = ["".join("x" if barred else "." for barred in row) for row in tgt_mask.tolist()]
        assert drawn == self.heard["tgt_mask"]
        return torch.tensor(self.heard["network"])[None], None, {}


def seeded_rows(words: list[str]) -> torch.Tensor:
    rows = [np.random.RandomState(sum(word.encode())).standard_normal(16) for word in words]
    return torch.tensor(np.array(rows), dtype=torch.float32)


@pytest.mark.parametrize("kind", ["text", "audio"])
def test_it_asks_and_answers_as_the_authors_do(kind):
    """See experiments/LOG.md for how their code was run, and for the whole network's difference."""
    model = DasmModel(RecordedNetwork(kind), seeded_rows, "theirs", query_type=kind)
    sound = np.zeros((1, 320_000), np.float32)
    sound[0, : int(6.3 * 32_000)] = 0.1
    answer = model(sound, ("Chopping", "Water running", "drawer"))
    assert answer.shape == (1, 3, 32) and (answer[0, :, :21] > 0).all()
    np.testing.assert_allclose(answer[0], AUTHORS[kind]["answer"], atol=1e-5)
