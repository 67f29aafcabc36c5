"""Settings fit the features they are for, and say what cannot be."""

from __future__ import annotations

import pytest

from earmark.gate.frontline import FRONTLINES, GATE, OPEN
from earmark_lab.training.head import Head
from earmark_lab.training.settings import Settings, settings_of


@pytest.mark.parametrize(
    "encoder", [name for name in FRONTLINES if name not in (GATE, OPEN, "dasm")]
)  # by its queries
def test_every_encoder_has_a_head_that_can_read_it(encoder: str) -> None:
    settings = settings_of("earmark", encoder)
    assert settings.encoder == encoder
    Head(FRONTLINES[encoder]().channels, width=settings.width, bands=settings.bands)


def test_what_is_chosen_wins_and_none_leaves_the_choice() -> None:
    chosen = settings_of("earmark", "yamnet", width=8, steps=None, objective="span")
    assert (chosen.width, chosen.steps, chosen.bands) == (8, 400, 0)
    assert chosen.objective == "span"


def test_floor_mel_is_the_default_of_a_training() -> None:
    assert settings_of("earmark", "floor-mel") == settings_of("earmark") == Settings()


def test_the_learning_rate_comes_down_in_the_last_two_fifths() -> None:
    settings = Settings(steps=100, learning_rate=1.0)
    assert settings.rate_at(1) == settings.rate_at(60) == 1.0
    assert settings.rate_at(81) == pytest.approx(0.5)
    assert 0 < settings.rate_at(100) < 0.03


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"objective": "vibes"}, "no objective 'vibes'; there are span, frame, rate, where"),
        ({"steps": 0}, "steps is more than 0, not 0"),
        ({"folds": 1}, "at least 2 folds, not 1"),
        ({"dropout": 1.0}, r"dropout lies in \[0, 1\), not 1.0"),
        ({"tau": 0.0}, "tau is more than 0"),
        ({"learning_rate": 0.0}, "learning_rate is more than 0"),
        ({"weight_decay": -1.0}, "weight_decay is 0 or more"),
        ({"context_channels": 0}, "loudness is read from the channels of the context"),
        ({"cooling": 2.0}, "cooling is a share"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Settings(**wrong)  # type: ignore[arg-type]
