"""Options by which a command reaches the message bus next to a cluster. Nothing that needs NATS is
imported before a bus is named."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tessera_runtime.bus.settings import BusSettings

    Arguments = argparse._ActionsContainer

WAIT_S: Final = 6.0
"""Seconds that a single answer waits for usage: agents report every few."""


def add_nats_options(to: Arguments, *, url: str, about: str) -> None:
    """Add those that name the bus; `named_bus` reads them. `about` is the help of its address, and
    `url` the default. `--user` alone would be Kubernetes' user."""
    to.add_argument("--nats", default=url, metavar="URL", help=about)
    to.add_argument(
        "--nats-cluster", default="", metavar="CLUSTER", help="refuse a bus of another cluster"
    )
    to.add_argument("--nats-creds", default="", metavar="FILE", help="file with NATS credentials")
    to.add_argument(
        "--nats-user", default="", metavar="USER",
        help="NATS user, such as viewer; needs --nats-password-file",
    )  # fmt: skip
    to.add_argument(
        "--nats-password-file", default="", metavar="FILE", help="file with the user's password"
    )


def add_usage_options(command: argparse.ArgumentParser) -> None:
    """Add those of a command that shows use where it can."""
    add_nats_options(
        command, url="",
        about="address of NATS, such as nats://127.0.0.1:4222; without it no use is shown",
    )  # fmt: skip
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
    return bus_of(options) if options.nats else None


def bus_of(options: argparse.Namespace) -> BusSettings:
    """The bus at the address of the options. Raises BadConfigFile, InputUnreadable."""
    from tessera_cli.cluster_state import bus_reader

    return bus_reader.settings(
        url=options.nats, cluster=options.nats_cluster, creds=options.nats_creds,
        user=options.nats_user, password_file=options.nats_password_file,
    )  # fmt: skip
