"""What listening costs: time against the floor, bytes against the audio, memory against length.

    python benchmarks/listen.py [--minutes 10] [--hours 5]
    python benchmarks/listen.py --only ffmpeg             # whole commands, start-up included

Makes its own media, measures everything in one run on one machine, and prints one table. The floor
is decoding the same audio to 16 kHz mono with the same libraries and throwing it away. Times are
processor seconds, the best of several taken in turns, so that a noisy neighbour matters little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np

from earmark.gate.frontline import frontline_named
from earmark.gate.listener import listen
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.media import find, open_recording
from earmark.selection import Budget, Coverage

FRONTLINES = ("energy", "flux", "variance", "log-mel", "gate")


def main() -> None:
    """Make the media, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the short file")
    parser.add_argument("--hours", type=float, default=5.0, help="length of the long file")
    parser.add_argument("--turns", type=int, default=3, help="times each measurement is taken")
    parser.add_argument("--only", choices=["ffmpeg"], help="one comparison alone")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--frontline", default="log-mel", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak_of_listening(options.peak, options.frontline))
        return
    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder, "short.mp4"), Path(folder, "long.mp4")
        film(short, seconds=round(options.minutes * 60))
        report_commands(short, options.turns)
        if options.only:
            return
        repeat(short, long, times=round(options.hours * 60 / options.minutes))
        report_speed(short, options.turns)
        report_bytes(short)
        report_memory(short, long)
    report_selection()
    report_import()


def report_speed(path: Path, turns: int) -> None:
    """Time of each frontline over the floor, and of a full video decode over the floor."""
    recording = open_recording(path)
    jobs: dict[str, Callable[[], object]] = {"floor": lambda: decode_audio(path)}
    for name in FRONTLINES:
        frontline = frontline_named(name)
        jobs[name] = lambda frontline=frontline: listen(recording, frontline)
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(turns):
        for name, job in jobs.items():
            best[name] = min(best[name], timed(job))
    video = timed(lambda: decode_video(path))
    print(
        f"## Time over the audio-decode floor ({recording.duration / 60:.0f} min of H.264 + AAC)\n"
    )
    print("| | processor seconds | x floor | x real time |\n|---|---|---|---|")
    for name, seconds in {**best, "full video decode": video}.items():
        ratio = seconds / best["floor"]
        print(f"| {name} | {seconds:.2f} | {ratio:.2f} | {recording.duration / seconds:.0f} |")
    print("\nTo reach: energy, flux and log-mel at most 1.5.\n")


def report_commands(short: Path, turns: int) -> None:
    """`earmark select` over `ffmpeg` decoding the same sound to 16 kHz mono, start-up included.

    They are run in turns, so that both meet the same neighbours; the ratio is that of the medians.
    """
    if shutil.which("ffmpeg") is None:
        print("## Commands\n\nffmpeg is not installed here, so nothing is compared with it.\n")
        return
    print("## Commands, start-up included\n")
    print("| | ffmpeg, s | earmark select, s | ratio | ratio of processor seconds |")
    print("|---|---|---|---|---|")
    long = short.with_name("commands.mp4")
    for minutes in (30, 120):
        repeat(short, long, times=max(1, round(minutes * 60 / open_recording(short).duration)))
        decode = ["ffmpeg", "-v", "error", "-i", str(long), "-vn", "-ac", "1", "-ar", "16000"]
        decode += ["-f", "null", "-"]
        hear = [sys.executable, "-m", "earmark", "select", str(long), "--budget", "5%"]
        hear += ["--no-cache"]
        both = np.array([[*timed_command(decode), *timed_command(hear)] for _ in range(turns)])
        theirs, their_cpu, ours, our_cpu = np.median(both, axis=0)
        print(
            f"| {minutes} min | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} "
            f"| {our_cpu / their_cpu:.2f} |",
            flush=True,
        )
    print("\nTo reach: 1.3 for 120 min.\n")


def timed_command(command: list[str]) -> tuple[float, float]:
    """Seconds of a command, by the clock and of the processors."""
    began, clock = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ended = os.times()
    return time.perf_counter() - clock, sum(ended[2:4]) - sum(began[2:4])


def report_bytes(path: Path) -> None:
    """Bytes read over the bytes of the audio packets and the index."""
    recording = open_recording(path)
    heard = listen(recording, frontline_named("energy"))
    with av.open(str(path)) as container:
        audio = sum(packet.size for packet in container.demux(container.streams.audio[0]))
    index = index_bytes(path)
    read = heard.bytes_read + recording.bytes_read
    print("## Bytes\n")
    print(
        f"{heard.access}: {heard.bytes_read:,} read while listening, {read:,} with describing, of"
    )
    print(f"{recording.size_bytes:,}; audio packets {audio:,}, index {index:,}:")
    print(
        f"listening {heard.bytes_read / (audio + index):.3f} x, all {read / (audio + index):.3f} x"
    )
    print("\nTo reach: at most 1.1.\n")


def report_memory(short: Path, long: Path) -> None:
    """Peak memory of listening to a short and to a long recording, each in its own process."""
    print("## Peak memory (MB)\n\n| | short | long | difference |\n|---|---|---|---|")
    for name in FRONTLINES:
        peaks = [peak_in_child(path, name) for path in (short, long)]
        print(f"| {name} | {peaks[0]:.0f} | {peaks[1]:.0f} | {peaks[1] - peaks[0]:+.0f} |")
    hours = open_recording(long).duration / 3600
    print(f"\nLong is {hours:.1f} h. To reach: a difference of at most 50.\n")


def report_selection() -> None:
    """Time of `coverage` over 1,000 recordings of an hour."""
    rng = np.random.default_rng(0)
    many = [scored_hour(rng) for _ in range(1_000)]
    shared = Budget(count=225 * len(many))
    each = timed(lambda: Coverage().each(many, budgets=[225] * len(many)))
    across = timed(lambda: Coverage().solve_many(many, shared, across=True))
    print(f"## Coverage over 1,000 h\n\neach {each:.1f} s, across {across:.1f} s")
    print("\nTo reach: at most 10 s.\n")


def report_import() -> None:
    """Time of `import earmark` in a fresh interpreter, less that of an empty one."""

    def run(code: str) -> float:
        command = [sys.executable, "-c", code]
        return min(timed(lambda: subprocess.run(command, check=True)) for _ in range(5))

    empty, full = run("pass"), run("import earmark")
    print(f"## Import\n\n`import earmark`: {full - empty:.2f} s. To reach: 0.5.")


def scored_hour(rng: np.random.Generator) -> Windows:
    scores = rng.gamma(2.0, size=900)
    rates = rng.gamma(2.0, 0.5, size=900)
    middles = (np.arange(900) + 0.5) * 4.0
    curve = Survival.lognormal(median=1.5, sigma=1.1)
    return Windows(4.0, 3600.0, scores, middles, rates, curve)


def film(path: Path, *, seconds: int) -> None:
    """What an action camera leaves: H.264 and 48 kHz stereo AAC, interleaved, moov at the end."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as out:
        video = out.add_stream("libx264", rate=30, options={"preset": "ultrafast", "g": "30"})
        video.width, video.height, video.pix_fmt = 640, 360, "yuv420p"
        audio = out.add_stream("aac", rate=48_000, layout="stereo")
        ground = rng.integers(0, 255, (360, 1280, 3), dtype=np.uint8)
        for second in range(seconds):
            for frame in range(30):
                shift = (second * 30 + frame) * 2 % 640
                picture = av.VideoFrame.from_ndarray(ground[:, shift : shift + 640], "rgb24")
                out.mux(video.encode(picture))
            noise = rng.standard_normal((2, 48_000)).astype(np.float32) * 0.05
            sound = av.AudioFrame.from_ndarray(noise, "fltp", "stereo")
            sound.sample_rate, sound.pts = 48_000, second * 48_000
            out.mux(audio.encode(sound))
        out.mux(video.encode(None))
        out.mux(audio.encode(None))


def decode_audio(path: Path) -> int:
    """The floor: decode and resample to 16 kHz mono, keep nothing."""
    resampler = av.AudioResampler("flt", "mono", 16_000)
    samples = 0
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        for frame in container.decode(stream):
            samples += sum(out.samples for out in resampler.resample(frame))
    return samples


def decode_video(path: Path) -> int:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        return sum(1 for _ in container.decode(stream))


def repeat(path: Path, target: Path, *, times: int) -> None:
    """Write the packets of `path` over and over, each round after the one before."""
    with av.open(str(path)) as container, av.open(str(target), "w") as out:
        copies = [out.add_stream_from_template(stream) for stream in container.streams]
        packets = [packet for packet in container.demux() if packet.dts is not None]
        lengths = [ticks(packets, copy.index) for copy in copies]
        for turn in range(times):
            for packet in packets:
                place = packet.stream_index
                again = av.Packet(bytes(packet))
                again.pts = packet.pts + turn * lengths[place]
                again.dts = packet.dts + turn * lengths[place]
                again.duration, again.time_base = packet.duration, packet.time_base
                again.is_keyframe, again.stream = packet.is_keyframe, copies[place]
                out.mux(again)


def ticks(packets: list[av.Packet], stream: int) -> int:
    """How long the packets of one stream last, in ticks of its clock."""
    return sum(packet.duration or 0 for packet in packets if packet.stream_index == stream)


def index_bytes(path: Path) -> int:
    """Size of the moov box."""
    data, place = path.read_bytes(), 0
    while place < len(data):
        size, kind = int.from_bytes(data[place : place + 4]), data[place + 4 : place + 8]
        size = size if size > 1 else int.from_bytes(data[place + 8 : place + 16])
        if kind == b"moov":
            return size
        place += size
    return 0


def peak_in_child(path: Path, name: str) -> float:
    command = [sys.executable, __file__, "--peak", str(path), "--frontline", name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_of_listening(path: Path, name: str) -> float:
    """Megabytes of this process after listening to `path`."""
    listen(open_recording(find([str(path)])[0]), frontline_named(name))
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def timed(job: Callable[[], object]) -> float:
    """Processor seconds of `job`, all threads and children: other work does not count."""
    began = os.times()
    job()
    return sum(os.times()[:4]) - sum(began[:4])


if __name__ == "__main__":
    main()
