"""Each model of the evidence taken away in turn: what it gives is missing, the rest works."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import earmark
from earmark.errors import ModelMissing
from earmark.evidence.picture_evidence import available_kinds
from earmark.models import ModelStore
from earmark.models.catalogue import MINILM, PPOCR, SETS, WHISPER
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.session import open_session
from making import make_video
from quiet_shift import film_shift

PARTS = {
    "heard": ("mn04", "yamnet"),
    "said": ("silero-vad", *WHISPER),
    "read": PPOCR,
    "seen": ("efficientdet-lite0",),
    "meant": MINILM,
}
LIBRARIES = ("ai_edge_litert", "cv2", "tokenizers")


def works(store: ModelStore) -> dict[str, str]:
    """The parts that work with the models in `store`; of others, the one line that is said."""
    plan = open_session([], models=store.folder, sounds=None).with_evidence()
    looked = [kind for kind in available_kinds(store) if kind != "heard"]
    assert len(plan.look.readers if plan.look else ()) == len(looked)
    told = dict.fromkeys(looked, "")
    told |= {"heard": ""} if plan.namer else {}
    told |= {"meant": ""} if SentenceEncoder.if_available(store) else {}
    try:
        open_session(speech=True, models=store.folder).open_speech_listener()
    except ModelMissing as error:
        return told | {"said": str(error)}
    return told | {"said": ""}


@pytest.mark.parametrize("absent", SETS["evidence"])
def test_without_one_model_the_others_work(absent, tmp_path):
    if missing := [name for name in LIBRARIES if find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed")
    own = ModelStore()
    if missing := [name for name in SETS["evidence"] if own.state(name) != "here"]:
        pytest.skip(f"{', '.join(missing)} not here: earmark models get evidence")
    for name in SETS["evidence"]:
        if name != absent:
            (tmp_path / own.path(name).name).symlink_to(own.path(name))
    told = works(ModelStore(tmp_path))
    (part,) = (part for part, names in PARTS.items() if absent in names)
    lost = set() if part == "heard" else {part}  # either network names sounds
    assert {name for name, line in told.items() if not line} == PARTS.keys() - lost
    if part == "said":  # asked for by name, so it is said
        assert f"earmark models get {absent}" in told[part] and "\n" not in told[part]


def test_without_any_a_run_goes_through_and_each_wish_is_one_line(tmp_path):
    path, store = make_video(tmp_path / "a.mp4", duration=8.0, clicks=[3.0]), ModelStore(tmp_path)
    done = earmark.caption(
        [path], run=tmp_path / "run", budget="1", frontline="flux", models=store.folder
    )
    assert done.totals.picks == 1
    for wish in ({"sounds": True}, {"pictures": True}, {"speech": True}):
        with pytest.raises(ModelMissing, match="earmark models get") as said:
            earmark.caption(
                [path],
                run=tmp_path / "run",
                budget="1",
                frontline="flux",
                models=store.folder,
                **wish,
            )
        assert "\n" not in str(said.value)
    with pytest.raises(ModelMissing, match="earmark models get mn04"):
        earmark.sounds([path], models=store.folder)


def test_mn04_names_sounds_without_yamnet(tmp_path):
    own = ModelStore()
    if own.state("mn04") != "here":
        pytest.skip("mn04 is not here: earmark models get mn04")
    (tmp_path / own.path("mn04").name).symlink_to(own.path("mn04"))
    film = tmp_path / "shift.mp4"
    film_shift(film, minutes=1.0, drillings=1)
    (heard,) = earmark.sounds([film], models=tmp_path).recordings
    assert heard.events
    assert {event.model for event in heard.events} == {"mn04"}
    assert all(0 <= event.span.start < event.span.end <= 60.1 for event in heard.events)
