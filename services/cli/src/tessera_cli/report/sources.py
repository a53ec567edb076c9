"""Reads a history from where the options say, and makes the report of it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from msgspec.structs import replace

from tessera_cli import kubeconfig, settings
from tessera_cli.api_objects import open_cluster
from tessera_cli.errors import BadConfigFile, CommandError, InputUnreadable
from tessera_cli.input.yaml_values import BadYaml, documents
from tessera_cli.report.answer import UseReport
from tessera_cli.report.holders import read_holders
from tessera_cli.report.recording_files import read_recordings
from tessera_core.registry.registry import DialectRegistry
from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.price_list import BadPriceList, PriceList, read_price_list
from tessera_core.utilization.right_sizes import SizeRules, right_sizes
from tessera_runtime.clock import SystemClock


class HoldersUnreadable(CommandError):
    """The pods that hold shares cannot be read; the message says why, and what would do."""


def read_report(options: argparse.Namespace) -> UseReport:
    """The report. Raises CommandError."""
    registry = settings.registry(options.config)
    prices = read_prices(options.prices) if options.prices else None
    notes: list[str] = []
    if options.recordings:
        history = UseHistory()
        read_recordings(options.recordings, history, options.days)
    else:
        history = asyncio.run(_of_prometheus(options, registry, notes))
    if options.namespace:
        history = history.of_namespace(options.namespace)
    rules = SizeRules(headroom_percent=options.headroom, least_hours=options.least_hours)
    sizes, left = right_sizes(history, registry, rules)
    return UseReport(
        history=history, owners=history.owners(prices), sizes=sizes, left=left, rules=rules,
        prices=prices, notes=notes,
    )  # fmt: skip


def read_prices(path: str) -> PriceList:
    """The price list. Raises InputUnreadable, BadConfigFile."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return read_price_list(next(documents(text), (1, {}))[1])
    except OSError as e:
        raise InputUnreadable(path, e.strerror or str(e), "name a file that can be read") from e
    except UnicodeDecodeError as e:
        raise InputUnreadable(path, str(e), "write it in UTF-8") from e
    except (BadYaml, BadPriceList) as e:
        raise BadConfigFile(path, str(e)) from e


async def _of_prometheus(
    options: argparse.Namespace, registry: DialectRegistry, notes: list[str]
) -> UseHistory:
    from aiohttp import ClientSession

    from tessera_cli.report.prometheus import PrometheusApi, digests_of, read_days, read_owners

    token = _token(options.token_file) if options.token_file else ""
    history, now = UseHistory(), SystemClock().time()
    async with ClientSession() as session:
        api = PrometheusApi(session, options.prometheus, token)
        for day in await read_days(api, now, options.days):
            history.add_all(digests_of(day))
        history.add_all(await read_owners(api, now, options.days))
    target = kubeconfig.target(options)
    if not (target.kubeconfig or target.host):
        notes.append("no cluster is named: manifests are not known, so there are no patches")
        return history
    async with open_cluster(
        target, name="tessera-report-cli", error=HoldersUnreadable
    ) as cluster:  # fmt: skip
        holders = await read_holders(cluster.kube, registry)
    for pod in holders.pods.values():
        former = history.pods.get(pod.holder.key)
        unowned = former is not None and not pod.holder.owner
        known = replace(
            pod.holder, owner=former.owner, owner_kind=former.owner_kind
        ) if former is not None and unowned else pod.holder  # fmt: skip
        history.add_all([known])
    notes += holders.problems
    return history


def _token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as e:
        why = e.strerror or str(e)
        raise InputUnreadable(path, why, "give a file with a token that you may read") from e
    except UnicodeDecodeError as e:
        raise InputUnreadable(path, str(e), "give a file with a token") from e
