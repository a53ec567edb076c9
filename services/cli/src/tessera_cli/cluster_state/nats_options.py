"""Options by which a command reaches the message bus next to a cluster. Nothing that needs NATS is
imported before a bus is named."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tessera_runtime.bus.settings import BusSettings

WAIT_S: Final = 6.0
"""Seconds that a single answer waits for usage: agents report every few."""


def add_nats_options(command: argparse.ArgumentParser) -> None:
    """Add them; `named_bus` reads them. `--user` alone would be Kubernetes' user."""
    command.add_argument(
        "--nats", default="", metavar="URL",
        help="address of NATS, such as nats://127.0.0.1:4222; without it no use is shown",
    )  # fmt: skip
    command.add_argument(
        "--nats-cluster", default="", metavar="CLUSTER", help="refuse a bus of another cluster"
    )
    command.add_argument(
        "--nats-creds", default="", metavar="FILE", help="file with NATS credentials"
    )
    command.add_argument(
        "--nats-user", default="", metavar="USER",
        help="NATS user, such as viewer; needs --nats-password-file",
    )  # fmt: skip
    command.add_argument(
        "--nats-password-file", default="", metavar="FILE", help="file with the user's password"
    )
    command.add_argument(
        "--agents", action="store_true",
        help="read use from the agents' metrics, through the API server, where no bus is named: it "
        "takes the right to get pods/proxy, and the component prometheus",
    )  # fmt: skip
    command.add_argument(
        "--wait", type=float, default=WAIT_S, metavar="SECONDS",
        help="wait so long for usage, where it is printed once",
    )  # fmt: skip


def named_bus(options: argparse.Namespace) -> BusSettings | None:
    """The bus that was named, if one was. Raises BadConfigFile, InputUnreadable."""
    if not options.nats:
        return None
    from tessera_cli.cluster_state import bus_reader

    return bus_reader.settings(
        url=options.nats, cluster=options.nats_cluster, creds=options.nats_creds,
        user=options.nats_user, password_file=options.nats_password_file,
    )  # fmt: skip
