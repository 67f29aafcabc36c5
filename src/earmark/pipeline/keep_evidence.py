"""Keeping what small models hear over the whole time: named sounds, and speech where it is wanted.

recordings ──▶ listener, on the backend ──▶ evidence in the ledger
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from earmark.errors import EarmarkError
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.pipeline.backend import Backend

if TYPE_CHECKING:
    from earmark.evidence.sound_listener import SoundListener
    from earmark.evidence.speech_listener import SpeechListener

logger = logging.getLogger(__name__)


def keep_sounds(
    recordings: Iterable[Recording], listener: SoundListener, ledger: Ledger, backend: Backend
) -> None:
    """Keep the sounds of `recordings` that `listener` names in the run as evidence.

    What listening left in the cache is not heard again. A recording whose sounds cannot be named
    goes without: choosing says why.
    """
    origin = listener.origin
    with Run(ledger.folder) as run:
        known = run.recordings_with_evidence("heard", origin=origin)
    wanted = [one for one in recordings if one.has_audio and one.key not in known]
    for one, found in backend.map(listener.evidence, wanted):
        if not isinstance(found, EarmarkError):
            ledger.keep_evidence(one.key, found, kinds=["heard"], origin=origin)


def keep_speech(
    recordings: Iterable[Recording], listener: SpeechListener, ledger: Ledger, backend: Backend
) -> None:
    """Keep what `listener` hears anybody say in each recording; what is kept is not heard again.

    A recording whose speech cannot be written down is a warning, and has none.
    """
    origin = listener.transcriber.name
    with Run(ledger.folder) as run:
        known = run.transcribed(origin)
    missing = [recording for recording in recordings if recording.key not in known]
    for recording, found in backend.map(listener, missing):
        if isinstance(found, EarmarkError):
            logger.warning("%s: its speech is not written down: %s", recording.name, found)
            continue
        ledger.keep_speech(recording.key, found, by=origin)


def forget_speech(recordings: Iterable[Recording], ledger: Ledger) -> None:
    """Delete what an earlier run kept of what is said in each recording."""
    for recording in recordings:
        ledger.keep_speech(recording.key, [], by="")
