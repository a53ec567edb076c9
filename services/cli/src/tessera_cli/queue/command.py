"""`tessera queue`: its arguments, and what it does. Nothing that needs a cluster is imported before
it runs."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tessera_cli import forms, kubeconfig

if TYPE_CHECKING:
    from tessera_schema.endpoints.queue_states import ListedQueues

    Commands = argparse._SubParsersAction[Any]

AGAIN_S: Final = 5.0
"""Seconds between two readings of a watch: the scheduler works queues out as often."""
_FORMS: Final = (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML, forms.NAME)


def queue_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "queue",
        help="list queues, and who waits in them",
        description="List queues as a tree: what each is guaranteed, deserves, may use, uses and "
        "borrows, and how many wait. With QUEUE, list who waits in it, in order, and why. The role "
        "view in the namespace is enough; gangs and pods of other namespaces are counted and not "
        "named.",
        epilog="example: tessera queue research -n ml",
    )
    command.add_argument("queue", metavar="QUEUE", nargs="?", default="", help="name of a queue")
    kubeconfig.add_arguments(command, environ)
    forms.add_forms(command, environ, _FORMS)
    command.add_argument(
        "-w", "--watch", action="store_true",
        help="print it again when it has changed, until you press Ctrl-C",
    )  # fmt: skip
    command.set_defaults(run=_queue)


def _queue(options: argparse.Namespace) -> int:
    asyncio.run(_run(options))
    return 0


async def _run(options: argparse.Namespace) -> None:
    from tessera_cli.queue import queues

    target, before = kubeconfig.target(options), None
    while True:
        found = queues.named(await queues.list_queues(target), options.queue)
        if found != before:
            _put(options, found)
        if not options.watch:
            return
        before = found
        await asyncio.sleep(AGAIN_S)


def _put(options: argparse.Namespace, found: ListedQueues) -> None:
    from tessera_cli.queue import queues, tables

    wide = options.output == forms.WIDE
    forms.put(
        options, [queues.document(found)], tables.names(found, options.queue),
        lambda to: tables.show(to, found, options.queue, wide=wide),
    )  # fmt: skip
