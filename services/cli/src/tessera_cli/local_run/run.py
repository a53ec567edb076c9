"""`tessera run`: asks for a share, and becomes the program. The share is held by this very process,
so that it is freed however the program ends, and signals and status are the program's own."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tessera_cli.errors import CommandError, UsageError
from tessera_cli.local_run.client import answer_to, is_own
from tessera_cli.text import print_notice
from tessera_schema.local_shares import ShareGiven, ShareWanted

FAILED: Final = 125
"""Exit status where the program was not started, as `env` and `docker run` have it."""
NOT_RUN: Final = 126
NOT_FOUND: Final = 127


def run(program: Sequence[str], wanted: ShareWanted, options: argparse.Namespace) -> int:
    """Become the program; returns only where that fails. Raises UsageError."""
    if not program:
        raise UsageError("run", "no program: write tessera run --memory 8Gi -- PROGRAM")
    if shutil.which(program[0], path=options.environ.get("PATH")) is None:
        return _failed(f"{program[0]}: there is no such program", NOT_FOUND)
    try:
        own = is_own(options)
        given = answer_to(options, wanted)
    except CommandError as e:
        return _failed(str(e), FAILED)
    if not isinstance(given, ShareGiven):
        return _failed("the daemon is of another release: end it", FAILED)
    if own:
        print_notice("no daemon of root's runs: cards are shared among your own processes alone")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would pass that on
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(program[0], list(program), environment(options.environ, given))  # noqa: S606
    except OSError as e:
        return _failed(f"{program[0]}: {e.strerror or e}", NOT_RUN)


def environment(environ: Mapping[str, str], given: ShareGiven) -> dict[str, str]:
    """The program's variables."""
    env = {**environ, **given.env}
    for name, first in given.paths.items():
        env[name] = f"{first}:{environ[name]}" if environ.get(name) else first
    return env


def _failed(why: str, status: int) -> int:
    sys.stderr.write(f"tessera: error: run: {why}\n")
    return status
