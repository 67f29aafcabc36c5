"""Opens a file; gives sound and frames at times."""

from earmark.media.audio_decoder import Sound
from earmark.media.frame import Frame
from earmark.media.frame_decoder import FrameStats
from earmark.media.frame_reader import Viewer
from earmark.media.inspection import Inspection, inspect
from earmark.media.packet_index import VideoPackets
from earmark.media.recording import AudioTrack, Part, Recording, VideoTrack
from earmark.media.recording_index import open_recording
from earmark.media.source import Source
from earmark.media.source_listing import find
from earmark.media.storage import Meter

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
