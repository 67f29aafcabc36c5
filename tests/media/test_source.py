"""Names of recordings and of the folders of their runs."""

from __future__ import annotations

import pytest

from earmark.media.source import folder_name


@pytest.mark.parametrize("letter", ["a", "é", "録"])
def test_a_folder_of_the_longest_file_name_can_be_made(tmp_path, letter):
    longest = letter * (250 // len(letter.encode()))  # and ".mp4": 254 bytes
    folder = tmp_path / f"{folder_name(longest)}-12345678-of-99999999"
    folder.mkdir()
    assert folder.name.startswith(letter * 60)
    assert folder_name(longest) != folder_name(longest[:-1] + "b"), "each has a folder of its own"
