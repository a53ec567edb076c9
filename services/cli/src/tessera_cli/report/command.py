"""`tessera report`: its arguments, and where its history comes from.

Nothing that needs a cluster, the bus or Prometheus is imported before it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tessera_cli import kubeconfig
from tessera_cli.cluster_state.nats_options import add_nats_options
from tessera_cli.text import print_notice

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

_EPILOG: Final = """\
example: tessera report --prometheus http://127.0.0.1:9090 --prices prices.yaml
         tessera report --record week.jsonl, later: tessera report --from week.jsonl"""
_DIGESTS_S: Final = 60
"""Seconds: of a period with less than six digests, one that comes late is a large part."""


def report_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "report",
        help="show what namespaces and owners were granted and used, and what would be enough",
        description="Show per namespace and owner the card hours that were granted, used, idle and "
        "throttled, what they cost, and which shares could be smaller, with a patch for each. The "
        "history comes from a Prometheus that scrapes the agents, or from a recording.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--prometheus", metavar="URL", help="address of Prometheus")
    source.add_argument(
        "--from", action="append", metavar="FILE", dest="recordings",
        help="a recording; may be repeated",
    )  # fmt: skip
    source.add_argument(
        "--record", metavar="FILE",
        help="follow usage on the message bus and write it down, until interrupted",
    )  # fmt: skip
    command.add_argument(
        "-o", "--output", choices=("table", "csv", "json", "patches", "plans"), default="table",
        help="a table with patches, a CSV row or JSON for each owner, patches alone as commands, "
        "or RebalancePlans for kubectl create -f -",
    )  # fmt: skip
    command.add_argument(
        "--no-headers", action="store_true", help="a table without the heads of its columns"
    )
    command.add_argument(
        "--days",
        type=_number(1 / 1440, 3650),
        default=7.0,
        help="days of the history, up to its end (default: 7)",
    )  # fmt: skip
    command.add_argument(
        "-n", "--namespace", default="", metavar="NAMESPACE", help="this namespace alone"
    )
    command.add_argument(
        "--prices", metavar="FILE", help="YAML: currency, and the price of a card's hour by model"
    )
    command.add_argument(
        "--headroom", type=_number(0, 1000), default=50.0, metavar="PERCENT",
        help="added to the highest peak, at least 1 GiB (default: 50)",
    )  # fmt: skip
    command.add_argument(
        "--least-hours", type=_number(0, 87_600), default=24.0, metavar="HOURS",
        help="for which an owner's container must have been measured to get a size (default: 24)",
    )  # fmt: skip
    command.add_argument(
        "--config", metavar="FILE", help="YAML: dialects: {NAME: {enabled: false, OPTION: ...}}"
    )
    command.add_argument(
        "--token-file", default="", metavar="FILE", help="file with a bearer token for Prometheus"
    )
    _recording_options(command)
    kubeconfig.add_arguments(command, environ, namespaced=False)
    command.set_defaults(run=_report, sized=bool(environ.get("COLUMNS")))


def _recording_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("recording")
    add_nats_options(group, url="nats://127.0.0.1:4222", about="address of NATS")
    group.add_argument(
        "--period", type=_number(1, 86_400), default=3600.0, metavar="SECONDS",
        help="one line a share is written for each period (default: 3600)",
    )  # fmt: skip
    group.add_argument(
        "--for", type=_number(0.001, 87_600), default=math.inf, metavar="HOURS", dest="hours",
        help="stop by itself after so many hours",
    )  # fmt: skip


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r}: write a number from {low:.4g} to {high:g}")
        return value

    return number


def _record(options: argparse.Namespace) -> int:
    from tessera_cli.report import recording

    if options.period < _DIGESTS_S:
        print_notice(
            f"--period {options.period:g}: agents publish every 10 seconds, so parts of periods "
            f"below a minute count as not measured: write {_DIGESTS_S} or more"
        )
    asyncio.run(recording.record(options))
    return 0


def _report(options: argparse.Namespace) -> int:
    if options.record:
        return _record(options)
    from tessera_cli import forms
    from tessera_cli.report import answer, sources

    report = sources.read_report(options)
    match options.output:
        case "csv":
            answer.write_csv(report)
        case "json":
            forms.put_document(forms.JSON, [answer.document(report)])
        case "patches":
            if not answer.write_patches(report):
                print_notice("no manifest to patch: the table says why")
        case "plans":
            if not answer.write_plans(report):
                print_notice("no running pod to resize: the table says why")
        case _:
            forms.put(options, [], (), lambda to: answer.show(to, report))
    return 0
