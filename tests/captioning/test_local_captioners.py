from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from earmark.captioning.local_captioners import LocalCaptioner, TransformersCaptioner
from earmark.errors import CallRejected, MissingExtra
from stills import ask_about, still


def test_files_that_are_missing_or_something_else_are_named(tmp_path, gguf_pair):
    model, encoder = gguf_pair
    (tmp_path / "model.gguf").write_bytes(b"RIFF....")
    with pytest.raises(CallRejected, match=r"no picture encoder at .*none\.gguf"):
        LocalCaptioner(model, tmp_path / "none.gguf").check()
    with pytest.raises(CallRejected, match=r"no model at .*none\.gguf"):
        LocalCaptioner(tmp_path / "none.gguf", encoder).check()
    with pytest.raises(CallRejected, match=r"model\.gguf is not a GGUF file"):
        LocalCaptioner(tmp_path / "model.gguf", encoder).check()


def test_a_pair_that_does_not_belong_together_is_refused(gguf_pair):
    model, encoder = gguf_pair
    with pytest.raises(CallRejected, match=r"llama\.cpp cannot load tiny-mmproj\.gguf"):
        LocalCaptioner(encoder, model, threads=1)(ask_about(), timeout=5.0)


def test_it_looks_at_the_picture_and_says_nothing_aside(gguf_pair, capfd):
    local = LocalCaptioner(*gguf_pair, threads=1)
    bare = ask_about(frames=False, answer_tokens=24)
    texts = {
        local(bare.showing([still(2.0, level=level)]), timeout=600.0).text for level in (0, 90, 255)
    }
    del local
    assert len(texts) == 3
    assert capfd.readouterr() == ("", "")


def test_threads_leave_a_core_free():
    threads = LocalCaptioner(Path("a.gguf"), Path("b.gguf")).threads
    assert threads == max(1, len(os.sched_getaffinity(0)) - 1)


@pytest.mark.parametrize(
    ("library", "make", "cure"),
    [
        ("xllamacpp", "LocalCaptioner(model, encoder)", "earmark[local]"),
        ("transformers", "TransformersCaptioner(model.parent)", "earmark[transformers]"),
    ],
)
def test_a_missing_extra_names_its_cure(gguf_pair, library, make, cure):
    """In a process of its own, where the library cannot be found."""
    program = f"""
import sys; sys.modules[{library!r}] = None
from pathlib import Path
from earmark.captioning.local_captioners import LocalCaptioner, TransformersCaptioner
model, encoder = map(Path, sys.argv[1:])
{make}.check()
"""
    command = [sys.executable, "-c", program, *map(str, gguf_pair)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"pip install '{cure}'" in done.stderr and "MissingExtra" in done.stderr


def test_a_library_that_cannot_be_loaded_is_a_missing_extra(gguf_pair, tmp_path, monkeypatch):
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(MissingExtra, match=r"libgomp.*earmark\[local\]"):
        LocalCaptioner(*gguf_pair).check()


def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(CallRejected, match=r"no checkpoint in .*: it has no config\.json"):
        TransformersCaptioner(tmp_path).check()


@pytest.mark.slow
def test_a_broken_checkpoint_is_one_line(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CallRejected, match="transformers cannot load") as caught:
        TransformersCaptioner(tmp_path)(ask_about(), timeout=5.0)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_transformers_model_looks_at_the_picture(checkpoint):
    captioner = TransformersCaptioner(checkpoint)
    bare = ask_about(frames=False, answer_tokens=12, tokens=64)
    answers = [
        captioner(bare.showing([still(2.0, width=width, height=64, level=level)]), timeout=600.0)
        for width, level in ((64, 0), (64, 255), (128, 255))
    ]
    assert len({answer.text for answer in answers}) == 3
    # One token a patch of 32 pixels: twice as wide is four more.
    assert answers[2].prompt_tokens - answers[1].prompt_tokens == 4
