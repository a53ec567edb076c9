"""`tessera check`: its arguments, and what it does. Nothing that needs a cluster is imported before
it runs.

Exit status: 0 no check failed, 1 one did or the cluster cannot be read, 2 a wrong call.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tessera_cli import forms, kubeconfig
from tessera_cli.errors import USAGE_ERROR

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

FAILED: Final = 1


def check_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "check",
        help="check a cluster before an installation, and an installation after it",
        description="Compare what the API server shows with what Tessera needs, and name for each "
        "fault the command that mends it. Before an installation only what must be ready then is "
        "checked. Nothing is changed. Exit status: 0 no check failed, 1 one did, 2 a wrong call.",
        epilog="examples: tessera check; tessera check --node gpu-1 --all",
    )
    command.add_argument("--node", default="", metavar="NAME", help="check this node alone")
    command.add_argument("--all", action="store_true", help="also show checks that are ok")
    kubeconfig.add_arguments(command, environ, namespaced=False)
    forms.add_forms(command, environ)
    command.set_defaults(run=_check, usage_error=USAGE_ERROR)


def _check(options: argparse.Namespace) -> int:
    from tessera_cli.check import cluster_reader, findings_table
    from tessera_core.preflight.checks import run_checks
    from tessera_core.preflight.findings import FindingState
    from tessera_runtime.clock import SystemClock

    reading = cluster_reader.read_cluster(kubeconfig.target(options), options.node, SystemClock())
    cluster = asyncio.run(reading)
    found = tuple(run_checks(cluster, of_node=bool(options.node)))
    forms.put(
        options,
        [findings_table.document(cluster, found)],
        (one.name for one in found if one.state is FindingState.FAILED),
        lambda to: findings_table.show(to, cluster, found, every=options.all),
    )
    return FAILED if any(one.state is FindingState.FAILED for one in found) else 0
