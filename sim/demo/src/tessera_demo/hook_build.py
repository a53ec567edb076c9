"""Builds what the demo's containers run under: the hook library and the simulated driver."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tessera_cli.errors import CommandError


class NoCompiler(CommandError):
    """The hook cannot be built; the message says what is missing."""


def build_hook(say: Callable[[str], None]) -> Path:
    """The folder with the hook library and the simulated driver, built if need be. Raises
    NoCompiler."""
    source = Path(__file__).parents[4] / "libs" / "hook"
    if not (source / "Makefile").exists():
        raise NoCompiler("the demo runs from a clone of Tessera: libs/hook is not there")
    make = shutil.which("make")
    if make is None or shutil.which("cc") is None:
        raise NoCompiler("the demo builds the hook library: install make and a C compiler")
    if not (source / "build" / "tessera-work").exists():
        say("building the hook library and the simulated driver")
    command = [make, "-s", "-C", str(source), "all"]
    with (source / "Makefile").open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # others may build here, too
        made = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (fixed arguments)
    if made.returncode:
        raise NoCompiler(f"the hook library cannot be built: {made.stderr.strip()[-1500:]}")
    return source / "build"
