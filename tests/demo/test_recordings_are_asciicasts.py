"""What a command writes on a terminal becomes an asciicast that plays as it was seen."""

from __future__ import annotations

import sys

import msgspec

from tests.demo.recording import FRAME, LEFT, Output, asciicast, played, thinned


def test_a_command_is_played_on_a_terminal_of_this_size() -> None:
    program = "import os; print(os.get_terminal_size()); raise SystemExit(3)"
    status, found = played([sys.executable, "-c", program], (97, 31), {})
    assert status == 3
    assert "columns=97, lines=31" in "".join(one.text for one in found)


def test_pictures_that_follow_each_other_soon_become_the_last_of_them() -> None:
    seen = [
        Output(0.0, "begins"), Output(1.0, f"{FRAME}a"), Output(1.1, "b"), Output(1.5, f"{FRAME}c"),
        Output(4.0, f"{FRAME}d{LEFT}"), Output(4.1, "the end"), Output(4.2, "of it"),
    ]  # fmt: skip
    assert thinned(seen, 2.0) == [
        Output(0.0, "begins"), Output(1.0, f"{FRAME}c"), Output(4.0, f"{FRAME}d{LEFT}"),
        Output(4.1, "the end"), Output(4.2, "of it"),
    ]  # fmt: skip


def test_a_recording_has_a_header_and_a_list_a_line() -> None:
    header, line = asciicast([Output(1.234, "ä\r\n")], (80, 24), "a demo").splitlines()
    assert msgspec.json.decode(header) == {
        "version": 2, "width": 80, "height": 24, "title": "a demo",
    }  # fmt: skip
    assert msgspec.json.decode(line) == [1.23, "o", "ä\r\n"]
