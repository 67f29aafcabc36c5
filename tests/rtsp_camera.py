"""An RTSP camera by GStreamer's server; run by the system's Python, which has its bindings.

python3 rtsp_camera.py PORT WIDTHxHEIGHT SAMPLE_RATE
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

port, size, rate = sys.argv[1:]
width, height = size.split("x")
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service(port)
factory = GstRtspServer.RTSPMediaFactory()
factory.set_shared(True)
factory.set_launch(
    f"( videotestsrc is-live=true ! video/x-raw,width={width},height={height},framerate=15/1"
    " ! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15"
    " ! rtph264pay name=pay0 pt=96 config-interval=1"
    f" audiotestsrc is-live=true wave=ticks ! audio/x-raw,rate={rate},channels=1"
    " ! audioconvert ! avenc_aac ! rtpmp4gpay name=pay1 pt=97 )"
)
server.get_mount_points().add_factory("/camera", factory)
server.attach(None)
sys.stdout.write("ready\n")
sys.stdout.flush()
GLib.MainLoop().run()
