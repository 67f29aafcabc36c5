"""Archives as they are listed: manifests, lists on servers, prefixes of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from earmark import open_recording
from earmark.errors import RemoteError, UnreadableFile
from earmark.media import Source, find
from making import make_audio
from servers import range_server, s3_bucket


def manifest(folder: Path, text: str, name: str = "cams.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_manifest_names_weighs_and_orders(tmp_path):
    text = "path,id,weight,priority\na.mp4,cam-a,,\nsub/b.mp4,cam-b,2.5,9\n/x/c.mp4,,,1\n"
    assert find([manifest(tmp_path, text)]) == [
        Source((str(tmp_path / "sub/b.mp4"),), id="cam-b", weight=2.5),
        Source(("/x/c.mp4",)),
        Source((str(tmp_path / "a.mp4"),), id="cam-a"),
    ]
    assert find([manifest(tmp_path, text)])[0].name == "cam-b"


def test_a_parquet_manifest_says_the_same(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"path": ["a.mp4", "s3://b/c.mp4"], "id": ["1", None], "weight": [None, 2.0]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "cams.parquet")
    text = "path,id,weight\na.mp4,1,\ns3://b/c.mp4,,2.0\n"
    assert find([tmp_path / "cams.parquet"]) == find([manifest(tmp_path, text)])


def test_a_list_on_a_server_names_its_neighbours(tmp_path):
    manifest(tmp_path, "# cameras of May\na.mp4\n\nhttps://other/b.mp4\n", "may.txt")
    with range_server(tmp_path) as server:
        found = find([server.url("may.txt")])
        assert found == [Source((server.url("a.mp4"),)), Source(("https://other/b.mp4",))]
        with pytest.raises(UnreadableFile, match=r"june.txt does not exist on the server"):
            find([server.url("june.txt")])


@pytest.fixture
def store() -> Iterator[str]:
    """A store that is no web server: this process's memory, by an address of its own."""
    files = fsspec.filesystem("memory")
    listed = b"path,id\na.mp4,1\n../b:2.mp4,2\n"
    for name, data in (("may/a.mp4", b"x"), ("may/c.MP4", b"x"), ("may/cams.csv", listed)):
        files.pipe_file(f"/cards/{name}", data)
    yield "memory://cards"
    files.rm("/cards", recursive=True)


def test_bytes_and_numbers_in_a_parquet_manifest_are_words(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"path": ["höre.mp4".encode(), b"b.mp4"], "id": [0, 1], "weight": [2, None]}
    parquet.write_table(arrow.table(columns), tmp_path / "cams.parquet")
    text = "path,id,weight\nhöre.mp4,0,2\nb.mp4,1,\n"
    assert find([tmp_path / "cams.parquet"]) == find([manifest(tmp_path, text)])
    parquet.write_table(arrow.table({"path": [b"\xff.mp4"]}), tmp_path / "odd.parquet")
    with pytest.raises(
        UnreadableFile, match=r"odd\.parquet, row 1: the path .* is not text in UTF-8"
    ):
        find([tmp_path / "odd.parquet"])


def test_a_manifest_in_a_store_names_its_neighbours(store):
    assert find([f"{store}/may/cams.csv"]) == [
        Source((f"{store}/may/a.mp4",), id="1"),
        Source((f"{store}/b:2.mp4",), id="2"),
    ]


@pytest.mark.parametrize(("glob", "names"), [("*.mp4", "a.mp4"), ("*.MP4", "c.MP4")])
def test_a_glob_in_a_store_gives_what_it_matches(store, glob, names):
    assert [Path(source.uris[0]).name for source in find([f"{store}/may/{glob}"])] == [names]


def test_messages_about_lists_keep_secrets(tmp_path):
    manifest(tmp_path, "wieght\n2\n")
    with range_server(tmp_path) as server:
        for name, complaint in (("cams.csv", "unknown columns"), ("no.csv", "does not exist")):
            with pytest.raises(UnreadableFile, match=complaint) as error:
                find([server.url(f"{name}?token=hunter2")])
            assert "hunter2" not in str(error.value)


def test_a_source_is_itself(tmp_path):
    source = Source(("a.mp4", "b.mp4"), id="x")
    assert find([source, "c.mp4"]) == [source, Source(("c.mp4",))]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("path,wieght\na.mp4,2\n", r"cams.csv has unknown columns: 'wieght'; a manifest has path"),
        ("id\n1\n", r"has no column named path"),
        ("path,id\na.mp4,1\nb.mp4,1\n", r"row 2: row 1 has the same id, 1"),
        ("path,id\na.mp4,1\na.mp4,2\n", r"row 2: row 1 has the same path, .*a.mp4"),
        ("path,priority\na.mp4,1\na.mp4,2\n", r"row 2: row 1 has the same path, .*a.mp4"),
        ("path,weight\na.mp4,heavy\n", r"row 1: the weight 'heavy' is not a number"),
        ("path,weight\na.mp4,-1\n", r"row 1: a weight must be above 0, not -1"),
        ("path,priority\na.mp4,inf\n", r"row 1: the priority 'inf' is not a number"),
        ("path\na.mp4,b.mp4\n", r"line 2: more values than columns"),
        ("path,id\n,1\n", r"row 1: no path"),
        ("path\n", r"lists no recording; write one per row"),
        ("", r"no column named path"),
        (f"path\n{'a' * 200_000}\n", r"line 2: field larger than field limit"),
    ],
)
def test_a_bad_manifest_is_one_clear_line(tmp_path, text, complaint):
    with pytest.raises(UnreadableFile, match=complaint) as error:
        find([manifest(tmp_path, text)])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_end_as_on_any_system_and_not_within_a_name(tmp_path, end):
    names = ["a.mp4", "b\u2028c.mp4", "d.mp4"]
    for name, lines in (("cams.csv", ["path", *names]), ("cams.txt", names)):
        listed = manifest(tmp_path, end.join(lines), name)
        assert [Path(one.uris[0]).name for one in find([listed])] == names


def test_a_damaged_parquet_file_is_one_clear_line(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "cams.parquet"
    parquet.write_table(arrow.table({"path": ["a.mp4"] * 100}), path)
    data = path.read_bytes()
    path.write_bytes(data[:-60] + bytes(40) + data[-20:])
    with pytest.raises(UnreadableFile, match=r"cams\.parquet is not a Parquet file"):
        find([path])


def test_a_name_that_no_file_can_have_is_reported_when_opened(tmp_path):
    (source,) = find([manifest(tmp_path, "path\na\0b.mp4\n")])
    with pytest.raises(UnreadableFile, match=r"a.x00b\.mp4' cannot be opened: embedded null byte"):
        open_recording(source)


def test_two_manifests_may_not_share_an_id(tmp_path):
    first = manifest(tmp_path, "path,id\na.mp4,1\n", "a.csv")
    second = manifest(tmp_path, "path,id\nb.mp4,1\n", "b.csv")
    with pytest.raises(UnreadableFile, match="two recordings have the id 1"):
        find([first, second])


def test_two_manifests_may_not_share_a_file(tmp_path):
    first = manifest(tmp_path, "path,id\na.mp4,1\n", "a.csv")
    second = manifest(tmp_path, "path,weight\n./a.mp4,2\n", "b.csv")
    assert len(find([first, first])) == 1
    with pytest.raises(UnreadableFile, match=r"two recordings contain .*a\.mp4"):
        find([first, second])


def test_recordings_come_in_the_order_given_and_each_once(tmp_path, monkeypatch):
    """Whichever way they are named; the chapters of a source are none of their own."""
    for name in ("a.mp4", "GX010001.MP4", "GX020001.MP4", "z.mp4"):
        (tmp_path / name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    chapters = Source(("GX010001.MP4", "GX020001.MP4"), id="shift")
    listed = manifest(tmp_path, "path,id\n./a.mp4,first\n")
    found = find(["z.mp4", chapters, listed, "."])
    assert found == [Source(("z.mp4",)), chapters, Source((str(tmp_path / "a.mp4"),), id="first")]


def test_lists_that_cannot_be_read(tmp_path):
    for name, data, complaint in (
        ("a.txt", b"\n# nothing\n", "lists no recording"),
        ("b.csv", b"path\n\xff.mp4\n", "not text in UTF-8"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UnreadableFile, match=complaint):
            find([tmp_path / name])
    with pytest.raises(UnreadableFile, match=r"none.csv does not exist"):
        find([tmp_path / "none.csv"])


def test_a_table_that_is_not_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "c.parquet").write_bytes(b"no")
    with pytest.raises(UnreadableFile, match="not a Parquet file"):
        find([tmp_path / "c.parquet"])


def test_what_is_named_like_a_list_and_is_a_recording(tmp_path):
    path = make_audio(tmp_path / "a.wav", duration=1.0).rename(tmp_path / "a.txt")
    assert find([path]) == [Source((str(path),))]
    assert open_recording(find([path])[0]).duration == pytest.approx(1.0)


def test_a_text_that_is_neither_list_nor_recording_is_one_clear_line(tmp_path):
    notes = manifest(tmp_path, "Dear diary. Nothing\nhappened today.\n" * 50, "notes.txt")
    with pytest.raises(
        UnreadableFile, match=r"notes.txt lists no recording; write one path or address per line"
    ):
        find([notes])
    (tmp_path / "camera one").touch()
    listed = manifest(tmp_path, "camera one\ncamera two\n", "cams.txt")
    assert [Path(each.uris[0]).name for each in find([listed])] == ["camera one", "camera two"]


@pytest.fixture
def bucket(monkeypatch) -> Iterator[str]:
    """An S3 server that lets only the first dozen requests through."""
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "12")
    with s3_bucket("cards", key="nobody") as client:
        for name in ("shift/b.mp4", "shift/a.mp4", "shift/notes.doc"):
            client.put_object(Bucket="cards", Key=name, Body=b"x")
        yield "s3://cards"


def test_a_prefix_of_a_bucket_gives_its_media(bucket):
    found = find([f"{bucket}/shift/"])
    assert found == [Source(("s3://cards/shift/a.mp4",)), Source(("s3://cards/shift/b.mp4",))]
    with pytest.raises(UnreadableFile, match=r"s3://cards/empty/ holds no media file"):
        find([f"{bucket}/empty/"])
    with pytest.raises(RemoteError, match=r"s3://cards/shift/ *: you have no permission"):
        for _ in range(12):  # until the requests that need no key are used up
            find_anew(f"{bucket}/shift/")


def find_anew(prefix: str) -> list[Source]:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    return find([prefix])
