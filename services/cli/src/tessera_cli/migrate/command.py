"""`tessera migrate`: its arguments, and what it does.

Exit status: 0 nothing is in the way, 1 something is or the cluster cannot be read, 2 a wrong call.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tessera_cli import forms, kubeconfig
from tessera_cli.errors import USAGE_ERROR, UsageError

if TYPE_CHECKING:
    from tessera_cli.input.manifests import Item
    from tessera_core.registry.registry import DialectRegistry

    Commands = argparse._SubParsersAction[Any]

BLOCKED: Final = 1


def migrate_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "migrate",
        help="say node by node how a cluster moves from another system, and back",
        description="Compare, node by node, what another system says of its cards with what "
        "Tessera reads and counts of the cluster, or of a dump of it, and print what is in the "
        "way, the commands that move a node, and those that give it back. Nothing is changed. Exit "
        "status: 0 nothing is in the way, 1 something is, 2 a wrong call.",
        epilog="examples: tessera migrate; tessera migrate gpu-1 --context staging; kubectl get "
        "nodes,namespaces,pods,daemonsets,deployments,mutatingwebhookconfigurations -A -o json | "
        "tessera migrate -f -",
    )
    command.add_argument("nodes", nargs="*", metavar="NODE", help="these nodes alone")
    command.add_argument(
        "-f", "--filename", action="append", metavar="FILE", dest="names",
        help="instead of the cluster: dump of it, folder of dumps, or - for standard input; may "
        "be repeated",
    )  # fmt: skip
    kubeconfig.add_arguments(command, environ, namespaced=False)
    forms.add_forms(command, environ, (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML, forms.NAME))
    command.add_argument(
        "--config", metavar="FILE", help="YAML: dialects: {NAME: {enabled: false, OPTION: ...}}"
    )
    command.set_defaults(run=_migrate, usage_error=USAGE_ERROR)


def _migrate(options: argparse.Namespace) -> int:
    from tessera_cli import settings
    from tessera_cli.migrate import dump, nodes_table
    from tessera_cli.text import print_notice
    from tessera_core.preflight.migration import MigrationState

    registry = settings.registry(options.config)
    found = dump.compare(
        _objects(options, registry), tuple(options.nodes), registry=registry, notify=print_notice
    )
    every = options.output == forms.WIDE or bool(options.nodes)
    forms.put(
        options,
        [nodes_table.document(found)],
        (node.name for node in found.nodes if node.state is MigrationState.READY),
        lambda to: nodes_table.show(to, found, every=every),
    )
    return BLOCKED if found.blocked else 0


def _objects(options: argparse.Namespace, registry: DialectRegistry) -> Iterable[Item]:
    if not options.names:
        from tessera_cli.migrate import live

        return asyncio.run(live.read_objects(kubeconfig.target(options), registry))
    named = {"--kubeconfig": options.kubeconfig, "--context": options.context, "--as": options.user}
    if chosen := next((name for name, value in named.items() if value), ""):
        raise UsageError("migrate", chosen, "a dump is read, and no cluster: leave out -f or this")
    from tessera_cli.migrate import dump

    return dump.read_dumps(
        options.names, sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    )
