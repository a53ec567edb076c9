"""`tessera demo`: how it is shown, and its exit status."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import Namespace
from collections.abc import Mapping

from tessera_cli import screen
from tessera_demo.audience import JsonAudience, LogAudience
from tessera_demo.interruption import Interrupted
from tessera_demo.live_audience import LiveAudience
from tessera_demo.run import play

_ALL_KEPT, _BROKEN = 0, 2
_SIGNALLED = 128


def run(options: Namespace, environ: Mapping[str, str]) -> int:
    """Play it; the exit status. Raises errors.Refused."""
    logging.getLogger("tessera").addHandler(logging.NullHandler())  # notices say what matters
    to = screen.console(sized=sys.stdout.isatty())
    audience = _kind(options)(to, checks=options.checks, pictures=options.pictures)
    playing = play(environ, audience, kill=options.kill, keep=options.keep)
    try:
        return _ALL_KEPT if asyncio.run(playing) else _BROKEN
    except Interrupted as e:
        return _SIGNALLED + e.number


def _kind(options: Namespace) -> type[LogAudience]:
    if options.json:
        return JsonAudience
    plain = options.plain or not sys.stdout.isatty() or not sys.stderr.isatty()
    return LogAudience if plain else LiveAudience
