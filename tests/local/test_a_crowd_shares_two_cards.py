"""Twenty processes of three users on two cards, killed at random for 200 rounds, with the daemon:
no card is ever given beyond what it has, and nothing is left."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.agent.machine import built

USERS = ("20001", "20002", "20003")


@pytest.mark.slow
def test_no_card_is_ever_over_and_nothing_is_left(open_folder: Path) -> None:
    """Without root there is one user."""
    built("libtessera.so")
    work = built("tessera-work")
    users = USERS if os.getuid() == 0 else (str(os.getuid()),)
    done = subprocess.run(
        [
            sys.executable, str(Path(__file__).with_name("crowd.py")), str(open_folder / "local"),
            "200", str(work), *users,
        ],
        stdout=subprocess.PIPE, check=True, timeout=280,
        env={**os.environ, "WORK_BUSY": "0"},  # noqa: TID251  (the new process's own)
    )  # fmt: skip
    seen = msgspec.json.decode(done.stdout)

    assert seen["over"] == []
    assert seen["users"] == len(users)
    assert seen["most"] >= 5
    assert seen["killed"] >= 200
    assert (seen["shares"], seen["waiting"], seen["held"], seen["files"]) == (0, 0, 0, [])
