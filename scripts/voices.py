"""Recorded voices of Debian packages, of which the default gate's detector learns what talk is.

The packages are `asterisk-core-sounds-en-g722`, `-es-g722`, `-fr-g722`, `-ru-g722` (announcements,
CC BY-SA 3.0 and CC BY 3.0) and `tuxpaint-stamps-default` (names of things in several languages,
GPL 2). They are read where they are installed, or below the folder where `dpkg -x` unpacked them.
"""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from earmark.features.encoder import SAMPLE_RATE
from earmark.timeline import FloatArray
from earmark_lab.training.synthetic_sound import Voices

LICENCE = (
    "voices of Debian's asterisk-core-sounds (CC BY-SA 3.0, CC BY 3.0) and tuxpaint-stamps-default "
    "(GPL 2)"
)
SPEAKERS = (
    "asterisk/sounds/en_US_f_Allison/**/*.g722",
    "asterisk/sounds/es_MX_f_Allison/**/*.g722",
    "asterisk/sounds/fr_CA_f_June/**/*.g722",
    "asterisk/sounds/ru_RU_f_IvrvoiceRU/**/*.g722",
    "tuxpaint/stamps/**/*_desc_ru.ogg",
    "tuxpaint/stamps/**/*_desc_ro.ogg",
    "tuxpaint/stamps/**/*_desc_bg.ogg",
    "tuxpaint/stamps/**/*_desc_es.ogg",
    "tuxpaint/stamps/**/*_desc_be.ogg",
    "tuxpaint/stamps/**/*_desc_ca.ogg",
)
"""Files of each speaker below `/usr/share`."""
NO_WORDS = ("silence", "beep", "tone")
"""Parts of the names of files in which nobody speaks."""
CLIPS = 400
"""Most clips of a speaker."""
SHORTEST, LONGEST = 0.3, 60.0
"""Seconds of a clip."""
CELL = SAMPLE_RATE // 100


def read_voices(root: Path) -> Voices:
    """The voices below `root`; raises `FileNotFoundError` where a package is missing."""
    people = []
    for pattern in SPEAKERS:
        paths = [
            path
            for path in sorted(root.glob(pattern))
            if not any(word in str(path.relative_to(root)) for word in NO_WORDS)
        ]
        if not paths:
            raise FileNotFoundError(f"no {pattern} in {root}: install the packages of {__file__}")
        np.random.default_rng(0).shuffle(paths)  # type: ignore[arg-type]
        people.append([clip for path in paths[:CLIPS] for clip in trimmed(decode(path))])
    return Voices(people)


def decode(path: Path) -> FloatArray:
    """The samples of a sound file, mono."""
    resampler = av.AudioResampler("flt", "mono", SAMPLE_RATE)
    with av.open(str(path)) as container:
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
        frames += resampler.resample(None)
    parts = [frame.to_ndarray()[0] for frame in frames]
    samples: FloatArray = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    return samples


def trimmed(samples: FloatArray) -> list[FloatArray]:
    """A clip without silence at its ends, its loud parts at 0.1; none if too short or too long."""
    cells = samples[: len(samples) // CELL * CELL].reshape(-1, CELL)
    loud = np.sqrt((cells**2).mean(axis=1))
    if not loud.max(initial=0.0) > 0:
        return []
    heard = np.flatnonzero(loud > 0.03 * loud.max())
    clip = samples[max(0, heard[0] - 5) * CELL : (heard[-1] + 6) * CELL]
    if not SHORTEST < len(clip) / SAMPLE_RATE < LONGEST:
        return []
    usual = np.sqrt((loud[loud > 0.1 * loud.max()] ** 2).mean())
    return [(0.1 / usual * clip).astype(np.float32)]
