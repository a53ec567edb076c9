"""`tessera ps`: the shares of this machine, as a table or a document."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tessera_cli import forms
from tessera_cli.listings.columns import print_columns
from tessera_cli.local_run.client import NoLocalDaemon, answer_to
from tessera_schema.local_shares import LocalShare, SharesListed, SharesWanted

_HEADS: Final = ("NAME", "USER", "PID", "CARD", "MEMORY", "USED", "CORES", "AGE", "COMMAND")
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20


def list_shares(options: argparse.Namespace) -> int:
    """Print them. Raises NoLocalDaemon."""
    listed = answer_to(options, SharesWanted())
    if not isinstance(listed, SharesListed):
        raise NoLocalDaemon("the daemon is of another release: end it")
    wide = options.output == forms.WIDE
    if not listed.shares and options.output in (forms.TABLE, forms.WIDE):
        sys.stderr.write("No shares found\n")
        return 0
    heads = (*_HEADS, "LENT", "ID") if wide else _HEADS
    rows = [_cells(one, time.time(), wide=wide) for one in listed.shares]
    document = {
        "cards": listed.cards, "shares": listed.shares, "waiting": listed.waiting,
    }  # fmt: skip
    forms.put(
        options, _encoded(document), (one.name for one in listed.shares),
        lambda to: print_columns(to, heads, rows),
    )  # fmt: skip
    return 0


def _encoded(document: object) -> Iterator[bytes]:
    yield msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _cells(one: LocalShare, now_s: float, *, wide: bool) -> Sequence[str]:
    cores = "best-effort" if one.best_effort else f"{one.cores_percent:g}%"
    more = (f"{one.lent_percent:g}%", one.card) if wide else ()
    return (
        one.name, one.user, str(one.pid or ""), str(one.index), _size(one.memory_bytes),
        _size(one.used_bytes), cores if one.cores_percent or one.best_effort else "",
        _age(max(now_s - one.since, 0)), one.command, *more,
    )  # fmt: skip


def _size(count: int) -> str:
    return f"{count / _GIB:.4g}Gi" if count >= _GIB else f"{count // _MIB}Mi"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
