"""Opens recordings; reads their sound, and frames at given times."""

from earmark.media.audio_timeline import Sound
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader, FrameStats
from earmark.media.recording import Recording
from earmark.media.recording_description import open_recording
from earmark.media.recording_part import AudioTrack, Part, VideoTrack
from earmark.media.source import Source
from earmark.media.source_listing import find
from earmark.media.storage import Meter

__all__ = [
    "AudioTrack",
    "Frame",
    "FrameReader",
    "FrameStats",
    "Meter",
    "Part",
    "Recording",
    "Sound",
    "Source",
    "VideoTrack",
    "find",
    "open_recording",
]
