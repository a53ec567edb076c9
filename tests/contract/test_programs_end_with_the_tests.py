"""Tests that are killed leave no etcd and no API server behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

PATIENCE_MS = 60_000
STARTS = """
import pathlib, sys
from tests.contract.real import Program

program = Program(["sleep", "600"], pathlib.Path(sys.argv[1]))
program.start()
print(program.pid, flush=True)
sys.stdin.read()
"""


def test_a_program_is_killed_when_what_started_it_is(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path / "log")], cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as tests:  # fmt: skip
        assert tests.stdout is not None
        program = os.pidfd_open(int(tests.stdout.readline()))
        ended = select.poll()
        ended.register(program, select.POLLIN)
        tests.kill()
    try:
        assert ended.poll(PATIENCE_MS)
    finally:
        os.close(program)
