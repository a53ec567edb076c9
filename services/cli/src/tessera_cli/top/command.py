"""`tessera top`: its arguments, and what it does. Nothing that needs a cluster is imported before
it runs."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from tessera_cli import forms, kubeconfig
from tessera_cli.cluster_state.nats_options import add_usage_options, named_bus
from tessera_cli.errors import USAGE_ERROR, UsageError
from tessera_cli.text import print_notice
from tessera_core.occupancy.selection import BadRowFilter, RowOrder

if TYPE_CHECKING:
    from tessera_cli.top.view import TopView

    Commands = argparse._SubParsersAction[Any]

_EPILOG: Final = """\
example: tessera top --nats nats://127.0.0.1:4222
         tessera top --once -o json -n ml
         tessera top --local"""


class MachineTop(Struct, frozen=True):
    """The same command for one machine without Kubernetes."""

    is_running: Callable[[argparse.Namespace], bool]
    """Whether its daemon runs."""
    show: Callable[[argparse.Namespace, TopView], int]


def top_parser(commands: Commands, environ: Mapping[str, str], machine: MachineTop) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "top",
        help="watch cards fill up and be used",
        description="Show every card as a bar: what is granted, used and free of it; beneath, the "
        "pods that hold it, who is throttled, lends and borrows, and the pods that wait and why. "
        "It is drawn again every second on a terminal; else, and with --once or -o, it is printed "
        "once. Cards and grants are read from the API server; use is read from the message bus, "
        "where --nats names it. With --local, and where there is no kubeconfig and the daemon of "
        "tessera run answers, it is of this machine and its processes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(usage_error=USAGE_ERROR)
    command.add_argument(
        "-n", "--namespace", action="append", default=[], metavar="NAMESPACE", dest="namespaces",
        help="only cards of which pods of it hold a part; may be repeated, and a pattern",
    )  # fmt: skip
    command.add_argument(
        "--node", action="append", default=[], metavar="NODE",
        help="only this node; may be repeated, and a pattern",
    )  # fmt: skip
    command.add_argument(
        "--dialect", action="append", default=[], metavar="DIALECT",
        help="only cards of which pods of this dialect hold a part; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--sort", choices=[order.value for order in RowOrder], default=RowOrder.NAME.value,
        help="what comes first",
    )  # fmt: skip
    command.add_argument("--once", action="store_true", help="print it once")
    command.add_argument(
        "--local", action="store_true", help="this machine, whose cards tessera run shares"
    )
    command.add_argument(
        "--simulated", action="store_true", help="this machine's simulated cards; says --local"
    )
    command.add_argument(
        "--folder", type=Path, help="folder of the daemon to ask; says --local"
    )  # fmt: skip
    kubeconfig.add_arguments(command, environ, namespaced=False)
    forms.add_forms(command, environ, (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML))
    add_usage_options(command)
    command.set_defaults(run=lambda options: _top(options, machine))


def _top(options: argparse.Namespace, machine: MachineTop) -> int:
    from tessera_cli.top.view import first_view

    try:
        view = first_view(_filter(options), RowOrder(options.sort))
    except BadRowFilter as e:
        raise UsageError(str(e)) from e
    if _is_of_machine(options, machine):
        return machine.show(options, view)
    return _of_cluster(options, view)


def _is_of_machine(options: argparse.Namespace, machine: MachineTop) -> bool:
    """Whether this machine is meant: it is named, or there is no cluster to ask and it answers."""
    if options.local or options.simulated or options.folder:
        return True
    target = kubeconfig.target(options)
    named = target.kubeconfig or target.context or target.user or target.host or options.nats
    return not named and machine.is_running(options)


def _of_cluster(options: argparse.Namespace, view: TopView) -> int:
    from tessera_cli.cluster_state.card_source import CardSource
    from tessera_cli.top import cluster_top

    source = CardSource(
        target=kubeconfig.target(options),
        bus=named_bus(options),
        agents=options.agents,
        wait_s=options.wait,
    )
    live = sys.stdout.isatty() and sys.stdin.isatty() and not options.once
    if live and options.output == forms.TABLE:
        from tessera_cli.screen import console

        logging.getLogger("tessera").addHandler(logging.NullHandler())  # the screen is not a log's
        asyncio.run(cluster_top.watch(source, view, console(sized=True)))
        return 0
    found, notices = asyncio.run(cluster_top.read(source, view))
    for notice in notices:
        print_notice(notice)
    cluster_top.put(options, found)
    return 0


def _filter(options: argparse.Namespace) -> str:
    """The options as somebody would type them into the filter."""
    named = (
        ("ns", options.namespaces), ("node", options.node), ("dialect", options.dialect),
    )  # fmt: skip
    return " ".join(f"{name}={','.join(values)}" for name, values in named if values)
