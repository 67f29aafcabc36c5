"""Opens a file; gives sound and frames at times."""

from earmark.media.inspection import Inspection, inspect
from earmark.media.listening import Sound
from earmark.media.looking import FrameStats
from earmark.media.opening import open_recording
from earmark.media.packets import VideoPackets
from earmark.media.pictures import Frame
from earmark.media.recording import AudioTrack, Part, Recording, VideoTrack
from earmark.media.source import Source, find
from earmark.media.storage import Meter
from earmark.media.viewing import Viewer

__all__ = [
    "AudioTrack",
    "Frame",
    "FrameStats",
    "Inspection",
    "Meter",
    "Part",
    "Recording",
    "Sound",
    "Source",
    "VideoPackets",
    "VideoTrack",
    "Viewer",
    "find",
    "inspect",
    "open_recording",
]
