"""Every annotation format, from a few lines written here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earmark.errors import AnnotationError
from earmark_lab.annotations.readers import READERS, detect, read_annotations

EPIC = """narration_id,participant_id,video_id,start_timestamp,stop_timestamp,narration,verb,noun
P1_0,P1,P1_01,00:00:00.50,00:01:01.25,take plate,take,plate
P1_1,P1,P1_01,00:00:00.00,01:00:00.00,,open,door
"""
SOUNDS = """annotation_id,participant_id,video_id,start_timestamp,stop_timestamp,description,class
P1_0,P1,P1_01,00:00:02.069,00:00:02.993,clang / clatter,collision
"""
TRAIN = """narration_id,participant_id,video_id,start_timestamp,stop_timestamp,verb,noun,uda_file
P1_0,P1,P1_01,00:00:00.14,00:00:03.37,,,source_train
"""
CAPTAINCOOK = """"recording_id","step_id","start_time","end_time","description","has_errors"
"1_7","3","7.072","46.288","Coat-Coat a ramekin cup","False"
"1_7","4","-1.0","-1.0","Microwave-Microwave the cup","True"
"1_7","3","50.0","82.31","Coat-Coat a ramekin cup","True"
"""
EGOEXO = """video_id,annotation_id,start_sec,end_sec,verb,noun,scenario
bee-1,ObTc,320.1,322.6,[100],[],kitchen
bee-2,L4zd,267.3,269.0,[66],"[105, 268]",lab
"""
FACTORY = (
    "start_timestamp,end_timestamp,activity,process,factory,worker,source_file,case_id,"
    "start_seconds_from_video_start,end_seconds_from_video_start,duration_seconds\n"
    "2000-01-01 00:00:03,2000-01-01 00:01:08,load blank,Stamping,f1,w1,f1_w1_00000.csv,f1_w1,"
    "3,68,65\n"
)
GENERIC = "recording,start,end,label\na,1.5,2.5,cut\nb,00:01:00,00:01:30.5,stir\n"
FRAMES = "4,8,0,14,0\n5,8,0,15,0\n5,5,0,-35,-18\n7,8,0,14,0\n7,8,1,90,0\n"
AUDACITY = "1.500000\t2.500000\tcut\n\\\t100.0\t200.0\n3,25\t4.0\t\n"
GOALSTEP = {
    "videos": [
        {
            "video_uid": "v1",
            "start_time": 0.02,
            "end_time": 90.0,
            "segments": [
                {
                    "start_time": 1.0,
                    "end_time": 30.0,
                    "step_description": "knead",
                    "segments": [{"start_time": 2.0, "end_time": 5.0, "segments": []}],
                },
                {"start_time": 40.0, "end_time": 50.0, "step_category": "bake", "segments": []},
            ],
        },
        {"video_uid": "v2", "start_time": 0.0, "end_time": 10.0, "segments": []},
    ]
}
EGOSOUND = [
    {"timestamp": "00:10 - 00:11", "question": "?", "question_id": "7_1", "video_path": "/v/7.mp4"},
    {"timestamp": "00:40", "question": "?", "question_id": "7_2", "video_path": "/v/7.mp4"},
    {"timestamp": "1:00–1:05", "question": "?", "question_id": "8_1", "video_path": "/v/8.mp4"},
    {"timestamp": "throughout", "question": "?", "question_id": "8_2", "video_path": "/v/8.mp4"},
]
ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="1500"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="2500"/>
</TIME_ORDER><TIER TIER_ID="actions">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>cut</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a2" ANNOTATION_REF="a1">
<ANNOTATION_VALUE>note</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
</TIER></ANNOTATION_DOCUMENT>
"""

Rows = dict[str, list[tuple[float, float, str]]]

CASES: list[tuple[str, str, str, Rows]] = [
    (
        "epic",
        "val.csv",
        EPIC,
        {"P1_01": [(0.0, 3600.0, "open door"), (0.5, 61.25, "take plate")]},
    ),
    ("epic", "sounds.csv", SOUNDS, {"P1_01": [(2.069, 2.993, "collision")]}),
    ("epic", "train.csv", TRAIN, {"P1_01": [(0.14, 3.37, "")]}),
    (
        "captaincook4d",
        "steps.csv",
        CAPTAINCOOK,
        {
            "1_7": [
                (7.072, 46.288, "Coat-Coat a ramekin cup"),
                (50.0, 82.31, "Coat-Coat a ramekin cup"),
            ]
        },
    ),
    (
        "egoexolearn",
        "ego.csv",
        EGOEXO,
        {"bee-1": [(320.1, 322.6, "[100] []")], "bee-2": [(267.3, 269.0, "[66] [105, 268]")]},
    ),
    ("factory10k", "factory.csv", FACTORY, {"f1_w1_00000": [(3.0, 68.0, "load blank")]}),
    ("csv", "mine.csv", GENERIC, {"a": [(1.5, 2.5, "cut")], "b": [(60.0, 90.5, "stir")]}),
    (
        "dcase",
        "mix1.csv",
        FRAMES,
        {"mix1": [(0.4, 0.6, "8"), (0.5, 0.6, "5"), (0.7, 0.8, "8"), (0.7, 0.8, "8")]},
    ),
    ("audacity", "take.txt", AUDACITY, {"take": [(1.5, 2.5, "cut"), (3.25, 4.0, "")]}),
    (
        "goalstep",
        "g.json",
        json.dumps(GOALSTEP),
        {"v1": [(1.0, 30.0, "knead"), (40.0, 50.0, "bake")], "v2": []},
    ),
    (
        "egosound",
        "q.json",
        json.dumps(EGOSOUND),
        {"7": [(10.0, 11.0, "?"), (40.0, 41.0, "?")], "8": [(60.0, 65.0, "?")]},
    ),
    ("elan", "s.eaf", ELAN, {"s": [(1.5, 2.5, "cut")]}),
    (
        "corrections",
        "said.jsonl",
        '{"recording": "a", "duration": 9, "start": 4, "end": 8, "verdict": "right", "label": "c"}'
        '\n{"recording": "b", "duration": 9, "start": 4, "end": 8, "verdict": "wrong", "label":""}',
        {"a": [(4.0, 8.0, "c")], "b": []},
    ),
]


@pytest.mark.parametrize(
    ("name", "file", "text", "expected"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_a_format_is_found_and_read(
    tmp_path: Path, name: str, file: str, text: str, expected: Rows
):
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    assert detect(path) == name
    marked = read_annotations(path)
    found = {
        recording: [
            (pytest.approx(each.start), pytest.approx(each.end), each.label) for each in got
        ]
        for recording, got in marked.recordings.items()
    }
    assert found == expected


def test_every_format_is_tried_here():
    assert {case[0] for case in CASES} | {"goalstep-substeps", "goalstep-all"} == set(READERS)


def test_substeps_and_all_levels_of_goalstep(tmp_path: Path):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(GOALSTEP))
    substeps = read_annotations(path, format="goalstep-substeps")
    assert [(each.start, each.end) for each in substeps.recordings["v1"]] == [(2.0, 5.0)]
    assert read_annotations(path, format="goalstep-all").actions == 3
    assert substeps.durations == {"v1": 90.0, "v2": 10.0}
    assert "v1" not in substeps.guessed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CAPTAINCOOK, "a.csv: skipped steps that were not carried out: 1"),
        (
            EGOEXO,
            "a file lists one split of the actions: more goes on than is marked",
        ),
        (FACTORY, "labels made by a machine: good for lengths and density, not for what happened"),
    ],
)
def test_what_the_marks_of_a_data_set_are_worth_is_said(tmp_path: Path, text: str, said: str):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert said in read_annotations(tmp_path / "a.csv").notes()


def test_unreadable_egosound_times_are_counted(tmp_path: Path):
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, EGOSOUND)))
    assert read_annotations(path).excluded == {"the timestamp cannot be read": 1}


def test_a_folder_is_read_whole_and_the_format_can_be_forced(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.txt").write_text("1\t2\tcut\n")
    (tmp_path / "sub" / "two.txt").write_text("1\t2\tcut\n")
    assert list(read_annotations(tmp_path).recordings) == ["one", "two"]
    with pytest.raises(AnnotationError, match=r"one.txt line 1: a frame is five or six numbers"):
        read_annotations(tmp_path, format="dcase")
    with pytest.raises(
        ValueError, match="no annotation format 'nope'; the annotation formats are epic"
    ):
        read_annotations(tmp_path, format="nope")


def test_a_file_given_twice_is_read_once(tmp_path: Path):
    path = tmp_path / "one.txt"
    path.write_text("1\t2\tcut\n")
    assert read_annotations([path, tmp_path, tmp_path / "." / "one.txt"]).actions == 1


ODD = {
    "a byte order mark": "\ufeffrecording,start,end,label\na,60.5,90,cut\n",
    "semicolons and decimal commas": "recording;start;end;label\na;60,5;90;cut\n",
    "tabs": "recording\tstart\tend\tlabel\na\t60.5\t90\tcut\n",
    "Windows newlines": "recording,start,end,label\r\na,60.5,90,cut\r\n",
    "old newlines": "recording,start,end,label\ra,60.5,90,cut\r",
    "quotes": '"recording","start","end","label"\n"a","60.5","90","cut"\n',
    "capitals, spaces, another order": "Label, End ,START,Recording\n cut , 90 ,60.5, a \n",
    "empty lines": "\n\nrecording,start,end,label\n\na,60.5,90,cut\n,,,\n\n",
    "empty cells at the end": "recording,start,end,label,,\na,60.5,90,cut,,\n",
    "hours": "recording,start,end,label\na,0:01:00.5,1:30,cut\n",
    "other columns": "id,recording,start,end,label,who\n7,a,60.5,90,cut,me\n",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_table_may_be_written_oddly(tmp_path: Path, text: str):
    path = tmp_path / "odd.csv"
    path.write_bytes(text.encode())
    assert detect(path) == "csv"
    found = read_annotations(path).recordings
    assert {n: [(a.start, a.end, a.label) for a in got] for n, got in found.items()} == {
        "a": [(60.5, 90.0, "cut")]
    }


def test_commas_in_quotes_belong_to_names_and_labels(tmp_path: Path):
    path = tmp_path / "c.csv"
    path.write_text('recording,start,end,label\n"a, b",1,2,"cut, then stir"\n')
    (label,) = (action.label for action in read_annotations(path).recordings["a, b"])
    assert label == "cut, then stir"
    path.write_text("recording;start;end;label\na, b;1;2;cut, then stir\n")
    assert read_annotations(path).recordings["a, b"][0].label == "cut, then stir"


def test_more_than_a_hundred_minutes_may_be_written_as_minutes(tmp_path: Path):
    path = tmp_path / "long.csv"
    path.write_text("recording,start,end\na,123:45,123:50.5\n")
    assert [(a.start, a.end) for a in read_annotations(path).recordings["a"]] == [(7425.0, 7430.5)]


def test_point_labels_of_audacity_are_counted(tmp_path: Path):
    path = tmp_path / "take.txt"
    path.write_bytes(b"1.0\t1.0\tpoint\r\n\r\n2.0\t3.0\tcut\xe2\x80\xa8knife\r\n")
    marked = read_annotations(path)
    assert [action.label for action in marked.recordings["take"]] == ["cut\u2028knife"]
    assert "1 row left out: no time between start and end" in marked.notes()


TIERS = """<ANNOTATION_DOCUMENT><TIME_ORDER><TIME_SLOT TIME_SLOT_ID="1" TIME_VALUE="0"/>
<TIME_SLOT TIME_SLOT_ID="2" TIME_VALUE="2000"/><TIME_SLOT TIME_SLOT_ID="3"/></TIME_ORDER>
<TIER TIER_ID="hands"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="h1" TIME_SLOT_REF1="1"
TIME_SLOT_REF2="2"><ANNOTATION_VALUE>cut</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="h2" TIME_SLOT_REF1="2" TIME_SLOT_REF2="3">
</ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="speech"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="s1" TIME_SLOT_REF1="1"
TIME_SLOT_REF2="2"><ANNOTATION_VALUE>well</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
</TIER><TIER TIER_ID="empty"/></ANNOTATION_DOCUMENT>"""


def test_tiers_of_elan_are_read_together_or_by_name(tmp_path: Path):
    path = tmp_path / "s.eaf"
    path.write_text(TIERS)
    marked = read_annotations(path)
    assert [action.label for action in marked.recordings["s"]] == ["cut", "well"]
    notes = marked.notes()
    assert "1 row left out: the timestamp cannot be read" in notes  # its slot was never set
    assert "s.eaf: all tiers were read (hands 2, speech 1); name some with elan:TIER,TIER" in notes
    spoken = read_annotations(path, format="elan:speech")
    assert [action.label for action in spoken.recordings["s"]] == ["well"]
    assert not spoken.remarks
    with pytest.raises(
        AnnotationError, match=r"s.eaf has no tier feet; it has hands, speech, empty"
    ):
        read_annotations(path, format="elan:feet,speech")
    with pytest.raises(ValueError, match="no annotation format 'csv:hands'"):
        read_annotations(path, format="csv:hands")


def test_egosound_with_a_line_separator_in_a_question(tmp_path: Path):
    item = '{"timestamp": "0:10", "question": "a\u2028b", "video_path": "7.mp4"}'
    path = tmp_path / "q.jsonl"
    path.write_text(item + "\n" + item + "\n", encoding="utf-8")
    assert read_annotations(path).actions == 2


def test_two_files_for_one_recording_are_refused(tmp_path: Path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.txt").write_text("1\t2\tcut\n")
    with pytest.raises(AnnotationError, match="two files annotate the recording one"):
        read_annotations(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("a.csv", "", "a.csv is empty: remove it or"),
        ("a.csv", "recording,start,end\n", "a.csv: no row, so nothing is annotated"),
        ("a.csv", "recording,start,end\na,nan,2\n", "a.csv line 2: 'nan' is no time"),
        ("a.csv", "recording,start,end\na,1,inf\n", "are not finite"),
        ("a.csv", "recording,start,end\na,-1,2\n", "starts at -1 s, before the recording"),
        ("a.csv", "recording,start,end\na,3,2\n", r"line 2 \(a\): ends at 2 s, before it starts"),
        ("a.csv", 'recording,start,end\na,"1,5",2\n', "line 2: '1,5' is no time"),
        ("a.csv", "recording,start,end,label\na,1,2,cut, stir\n", "line 2: 5 cells under 4 col"),
        ("a.csv", "recording,start,end,start\na,1,2,3\n", "needs recording and start and end"),
        ("a.csv", "recording,start,end\na,1\n", "a.csv line 2: a row needs recording, start"),
        ("a.csv", f'recording,start,end\n"{"x" * 140_000}', "a.csv is no CSV: field larger"),
        ("a.csv", "who,when\n1,2\n", "in no format earmark knows"),
        ("a.csv", "recording,start,end\na,soon,2\n", "a.csv line 2: 'soon' is no time"),
        ("a.csv", "recording,start,end\n,1,2\n", "a.csv line 2: a row needs recording, start"),
        ("a.json", '{"question": ', "neither GoalStep"),
        ("a.json", '{"videos": [{"video_uid": "v", "segments": [', "a.json is not JSON"),
        ("a.json", '{"videos": [{"video_uid": "v", "segments": []}]}', "has no end_time"),
        (
            "a.json",
            '{"videos": [{"video_uid": "v", "end_time": "soon"}]}',
            "end_time is 'soon', which",
        ),
        (
            "a.json",
            '{"videos": [{"video_uid": "v", "end_time": NaN, "segments": []}]}',
            "a.json video v: end_time is 'nan', which is no number",
        ),
        (
            "a.json",
            '{"videos": [{"video_uid": "v", "end_time": 9, "segments": "no"}]}',
            "a.json video v: segments is no list",
        ),
        (
            "a.json",
            '{"videos": [{"video_uid": "v", "end_time": 9, "segments": [3]}]}',
            "a.json video v has no start_time",
        ),
        (
            "a.json",
            '{"videos": [{"video_uid": "v", "end_time": 9, "segments": [{"start_time": 1}]}]}',
            "a.json video v at 1 s has no end_time",
        ),
        ("a.json", '{"videos": 3, "segments": 1}', "holds no list of videos"),
        ("a.json", '[{"timestamp": "0:01", "question": "?"}]', "item 0 names no video"),
        ("a.eaf", "<ANNOTATION_DOCUMENT>", "a.eaf is not XML"),
        (
            "a.eaf",
            '<ANNOTATION_DOCUMENT><TIME_SLOT TIME_VALUE="soon"/></ANNOTATION_DOCUMENT>',
            "a.eaf: TIME_VALUE is 'soon', which is no number",
        ),
        ("a.txt", "1\t2\tcut\n\nnonsense\n", "a.txt line 3: a label is start, tab"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, file: str, text: str, complaint: str
):
    path = tmp_path / file
    path.write_text(text)
    with pytest.raises(AnnotationError, match=complaint) as caught:
        read_annotations(path)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_said(tmp_path: Path):
    with pytest.raises(AnnotationError, match="cannot read"):
        read_annotations(tmp_path / "absent.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(AnnotationError, match="is not UTF-8"):
        read_annotations(tmp_path / "b.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnnotationError, match="holds no annotation file"):
        read_annotations(tmp_path / "empty")
