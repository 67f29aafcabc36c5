"""Opens a file; gives sound and frames at times."""

from earmark.media.listening import Sound
from earmark.media.opening import open_recording
from earmark.media.packets import VideoPackets
from earmark.media.recording import AudioTrack, Part, Recording, VideoTrack
from earmark.media.source import Source, find
from earmark.media.storage import Meter

__all__ = [
    "AudioTrack",
    "Meter",
    "Part",
    "Recording",
    "Sound",
    "Source",
    "VideoPackets",
    "VideoTrack",
    "find",
    "open_recording",
]
