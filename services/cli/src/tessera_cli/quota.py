"""`tessera quota`: what namespaces may use, use and wait for, as the quota service wrote it.

The statuses are read from the API server, with the caller's own rights. Where the quota service
does not run there are none, and the limits hold all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.text import Text

from tessera_cli.api_objects import list_all, open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget
from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_core.quota.objects import VERSION
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_schema.annotation_keys import GROUP
from tessera_schema.json_codec import decoder
from tessera_schema.quotas import QuotaStatus

_STYLES: Final = {"Within": "green", "Grace": "yellow", "Throttled": "bold red"}
_HEADS: Final = ("Quota", "Phase", "Memory", "Cores", "Cards", "Waiting", "Measured", "Hours")


class QuotasUnreadable(CommandError):
    """Quotas cannot be read; the message says why, and what would do."""


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class QuotaRow(Struct, frozen=True):
    """One AcceleratorQuota; `spec` as its writer spelt it."""

    metadata: _Meta = _Meta()
    spec: dict[str, Any] = {}
    status: QuotaStatus = QuotaStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


_decode = decoder(QuotaRow)


async def list_quotas(target: ClusterTarget) -> list[QuotaRow]:
    """The quotas of the namespace, or of all, by name. Raises QuotasUnreadable."""
    async with open_cluster(target, name="tessera-quota-cli", error=QuotasUnreadable) as cluster:
        return await read(cluster.kube, "" if target.everywhere else cluster.namespace)


async def read(kube: Kube, namespace: str) -> list[QuotaRow]:
    """The quotas of a namespace, or with an empty one of all. Raises QuotasUnreadable, and as
    `Kube.call` does."""
    path = paths.in_group(GROUP, VERSION, "acceleratorquotas", namespace=namespace)
    found = await list_all(
        kube,
        path,
        _decode,
        kind="AcceleratorQuota",
        part="a quota's status",
        error=QuotasUnreadable,
    )
    return sorted(found, key=lambda one: one.name)


def show(to: Screen, quotas: Sequence[QuotaRow]) -> None:
    """Print a row for each quota, and below it what is to be known of them."""
    if not quotas:
        to.print("no quotas (-A shows those of all namespaces)")
        return
    notes = ((one.name, note) for one in quotas for note in _notes(one))
    to.print_rows(_HEADS, map(_row, quotas), notes, unbroken=("Quota", "Phase"))


def document(quotas: Sequence[QuotaRow]) -> bytes:
    """The same as JSON."""
    rows = [
        {"namespace": q.metadata.namespace, "name": q.metadata.name, "spec": q.spec,
         "status": q.status}
        for q in quotas
    ]  # fmt: skip
    return msgspec.json.encode({"quotas": rows}) + b"\n"


def _row(one: QuotaRow) -> Iterator[Text]:
    status, hard = one.status, _part(one.spec, "hard")
    used = status.used
    yield Text(printable(one.name))
    yield Text(status.phase or "not counted", style=_STYLES.get(status.phase, "dim"))
    for name, amount in (
        ("memory", used.memory), ("cores", f"{used.cores:g}"), ("cards", f"{used.cards}"),
    ):  # fmt: skip
        most = f" of {hard[name]}" if name in hard else ""
        own = _part(one.spec, "guaranteed").get(name)
        yield Text(
            printable(f"{amount}{most}" + (f" ({own} guaranteed)" if own is not None else ""))
        )
    yield Text(f"{status.waiting.pods}")
    yield Text(printable(f"{status.seen.memory}, {status.seen.cores:g} %"))
    yield Text(f"{status.hours.seen:.1f} of {status.hours.granted:.1f}")


def _notes(one: QuotaRow) -> Iterator[str]:
    status = one.status
    if not status.phase:
        yield "nobody counts: the quota service does not run, or has not come to it yet"
    if status.problem:
        yield f"it limits what it did before: {status.problem}"
    yield from _excess(status)
    waits = status.waiting
    if waits.pods:
        amounts = f"{waits.memory}, {waits.cores:g} % and {waits.cards} cards"
        yield f"{waits.pods} pods wait for {amounts}"
    for idle in status.idle:
        held = f"{idle.memory}, {idle.cards} cards"
        yield f"{idle.pod} has used no GPU time since {idle.since}: {held}"
    if status.idle_pods > len(status.idle):
        yield f"{status.idle_pods - len(status.idle)} more pods have used no GPU time for long"


def _excess(status: QuotaStatus) -> Iterator[str]:
    if status.message:
        yield status.message
    if status.throttles_at:
        yield f"its cores are lowered at {status.throttles_at}"
    if status.cores_percent < 100:
        yield f"its containers are to get {status.cores_percent:g} percent of their cores"


def _part(spec: dict[str, Any], name: str) -> dict[str, Any]:
    part = spec.get(name)
    return part if isinstance(part, dict) else {}
