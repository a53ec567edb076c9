"""`tessera migrate`: its arguments, and what it does.

Exit status: 0 nothing is in the way, 1 something is or the dump cannot be read, 2 a wrong call.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tessera_cli import forms
from tessera_cli.errors import USAGE_ERROR

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

BLOCKED: Final = 1


def migrate_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "migrate",
        help="say node by node how a cluster moves from another system, and back",
        description="Compare, node by node, what another system says of its cards with what "
        "Tessera reads and counts of a dump, and print what is in the way, the commands that move "
        "a node, and those that give it back. Nothing is changed. Exit status: 0 nothing is in "
        "the way, 1 something is, 2 a wrong call.",
        epilog="example: kubectl get nodes,namespaces,pods,daemonsets,deployments,"
        "mutatingwebhookconfigurations -A -o json | tessera migrate -f -",
    )
    command.add_argument("nodes", nargs="*", metavar="NODE", help="these nodes alone")
    command.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE", dest="names",
        help="dump of the cluster, folder of dumps, or - for standard input; may be repeated",
    )  # fmt: skip
    forms.add_forms(command, environ, (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML, forms.NAME))
    command.add_argument(
        "--config", metavar="FILE", help="YAML: dialects: {NAME: {enabled: false, OPTION: ...}}"
    )
    command.set_defaults(run=_migrate, usage_error=USAGE_ERROR)


def _migrate(options: argparse.Namespace) -> int:
    from tessera_cli.migrate import dump, nodes_table
    from tessera_cli.text import print_notice
    from tessera_core.preflight.migration import MigrationState

    found = dump.read_migration(
        options.names, tuple(options.nodes), config=options.config, notify=print_notice,
        stdin=sys.stdin.buffer if sys.stdin is not None else io.BytesIO(),
    )  # fmt: skip
    every = options.output == forms.WIDE or bool(options.nodes)
    forms.put(
        options,
        [nodes_table.document(found)],
        (node.name for node in found.nodes if node.state is MigrationState.READY),
        lambda to: nodes_table.show(to, found, every=every),
    )
    return BLOCKED if found.blocked else 0
