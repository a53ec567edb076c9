"""`tessera top` of one machine: the daemon of `tessera run` is asked once a second."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from typing import Final

from tessera_cli import forms
from tessera_cli.cluster_state import documents
from tessera_cli.errors import CommandError
from tessera_cli.local_run.client import shares_of
from tessera_cli.local_run.machine_rows import MachineRows
from tessera_cli.screen import console
from tessera_cli.top import live, snapshot
from tessera_cli.top.frame import TopSnapshot
from tessera_cli.top.view import TopView
from tessera_runtime.background import running_in_background
from tessera_schema.local_shares import SharesListed

_NAME: Final = "local"
_HOLDERS: Final = "processes"
_ONCE_S: Final = 0.5
"""Seconds between the two questions of a single picture: use of cores is what lies between."""


def show(options: argparse.Namespace, view: TopView) -> int:
    """Draw the machine until somebody quits, or print it once. Raises NoLocalDaemon."""
    on_terminal = sys.stdout.isatty() and sys.stdin.isatty() and not options.once
    if on_terminal and options.output == forms.TABLE:
        asyncio.run(_watch(options, view))
        return 0
    before = shares_of(options)
    time.sleep(_ONCE_S)  # noqa: TID251  (a command without a loop)
    found = _take(shares_of(options), before, view, "")
    forms.put(
        options, documents.encoded(snapshot.document(found)), (),
        lambda to: snapshot.show(to, found, shares=options.output == forms.WIDE),
    )  # fmt: skip
    return 0


class _Answers:
    """The last two answers of the daemon."""

    def __init__(self, first: SharesListed) -> None:
        self.before = self.listed = first
        self.problem = ""

    async def follow(self, options: argparse.Namespace) -> None:
        """Ask again and again; a daemon that does not answer is said in the picture."""
        while True:
            await asyncio.sleep(live.TICK_S)
            try:
                after = await asyncio.to_thread(shares_of, options)
            except CommandError as e:
                self.problem = str(e)
                continue
            self.before, self.listed, self.problem = self.listed, after, ""


async def _watch(options: argparse.Namespace, view: TopView) -> None:
    answers = _Answers(await asyncio.to_thread(shares_of, options))
    async with running_in_background(answers.follow(options), "answers"):
        await live.draw(
            console(sized=True), view,
            lambda wanted: _take(answers.listed, answers.before, wanted, answers.problem),
            live.VisibleNodes(),
        )  # fmt: skip


def _take(listed: SharesListed, before: SharesListed, view: TopView, status: str) -> TopSnapshot:
    rows = MachineRows(node=os.uname().nodename, listed=listed, before=before)
    return snapshot.take(
        rows, view, name=_NAME, now_s=time.time(), status=status, holders=_HOLDERS
    )  # fmt: skip
