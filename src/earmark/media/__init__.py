from earmark.media.audio_decoder import Sound
from earmark.media.frame import Frame
from earmark.media.recording import Recording
from earmark.media.recording_description import open_recording
from earmark.media.source import Source
from earmark.media.source_listing import find
from earmark.media.storage import Meter

__all__ = [
    "Frame",
    "Meter",
    "Recording",
    "Sound",
    "Source",
    "find",
    "open_recording",
]
