"""Names are cached, and a cache that is damaged is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark import Span, open_recording
from earmark.errors import ModelMissing
from earmark.evidence.sound_names import SoundNamer, sound_namer
from earmark.models import ModelStore
from making import make_audio
from quiet_shift import require_yamnet
from scale_work import Listens

SPANS = [Span(0.0, 1.0), Span(1.0, 2.0)]


@pytest.mark.parametrize(
    "damage",
    [b"", b"[[0.0", b"\xff\xfe\x00", b"[[2, 1, []]]", b"[5]"],
    ids=["empty", "cut", "bytes", "backwards", "no rows"],
)
def test_what_was_named_is_heard_once_unless_it_is_damaged(tmp_path: Path, damage: bytes) -> None:
    recording = open_recording(make_audio(tmp_path / "a.flac", duration=2.0, clicks=[1.0]))
    heard = tmp_path / "heard"
    heard.mkdir()
    namer = SoundNamer(Listens(str(heard)), tmp_path / "cache")
    first = namer(recording, SPANS)
    assert namer(recording, SPANS[1:]) == {SPANS[1]: first[SPANS[1]]}
    assert namer.cached(recording) == first
    assert len(list(heard.iterdir())) == 1
    (kept,) = tmp_path.glob("cache/names/*/*.json")
    kept.write_bytes(damage)
    assert namer.cached(recording) == {}
    assert namer(recording, SPANS) == first
    assert len(list(heard.iterdir())) == 2


def test_nothing_names_sounds_unless_it_is_wanted_or_all_it_takes_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):  # a model store without a model
        monkeypatch.setenv(name, str(tmp_path))
    assert sound_namer(False, tmp_path) is None
    assert sound_namer(None, tmp_path) is None
    with pytest.raises(ModelMissing, match="earmark models get mn04"):
        sound_namer(True, tmp_path)


def test_mn04_names_sounds_if_it_is_here_and_yamnet_if_not(
    tmp_path: Path, shared_data: Path
) -> None:
    require_yamnet()
    yamnet = ModelStore().find("yamnet")
    (tmp_path / yamnet.name).symlink_to(yamnet)
    mn04 = tmp_path / "mn04_as_mAP_432.pt"
    mn04.symlink_to(shared_data / "mn04" / mn04.name)
    for name in ("mn04", "yamnet"):
        namer = sound_namer(True, None, store=ModelStore(tmp_path))
        assert namer is not None and namer.model == name
        mn04.unlink(missing_ok=True)
