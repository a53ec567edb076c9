"""Reads the objects that checks compare, page by page, with the caller's own rights.

What the caller may not read is named in the snapshot, and the checks that need it say so. Values of
Secrets are not decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml
from msgspec import UNSET, Struct
from msgspec.structs import replace

from tessera_cli.api_objects import open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget
from tessera_core.preflight import objects
from tessera_core.preflight.installation import BUS, MADE_BY_SCHEDULER, needed_secrets
from tessera_core.preflight.node_agents import ALERTS
from tessera_core.preflight.snapshot import (
    LEASES,
    NAMESPACE,
    ClockReading,
    InstallationSnapshot,
)
from tessera_core.registry.registry import BadConfiguration, DialectRegistry, load
from tessera_core.registry.vendor_monitoring import monitoring
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiForbidden, ApiNotFound, reasons
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import NONE, Kube, Verb
from tessera_runtime.kube.credentials import KubeCredentials
from tessera_runtime.kube.lists import pages
from tessera_runtime.kube.server_clock import read_server_time
from tessera_runtime.kube.timestamps import parse_time
from tessera_schema.json_codec import decoder

_PAGE: Final = 500
_CALL_S: Final = 10.0
_APPS: Final = ("apps", "v1")
_ADMISSION: Final = ("admissionregistration.k8s.io", "v1")
_OWN: Final = {"labelSelector": f"{objects.PART_OF}={objects.PRODUCT}"}


class InstallationUnreadable(CommandError):
    """The cluster cannot be checked at all; the message says why, and what would do."""


class _List(Struct, frozen=True):
    source: str
    path: str
    type: type[Any]
    query: Mapping[str, str] = NONE


def _lists() -> tuple[_List, ...]:
    group = paths.in_group
    return (
        _List("nodes", paths.NODES, objects.NodeFacts),
        _List("deployments", group(*_APPS, "deployments"), objects.WorkloadFacts, _OWN),
        _List("statefulsets", group(*_APPS, "statefulsets"), objects.WorkloadFacts, _OWN),
        _List("daemonsets", group(*_APPS, "daemonsets"), objects.WorkloadFacts),
        _List("pods", paths.in_core(NAMESPACE, "pods"), objects.PodFacts, _OWN),
        _List(
            "leases",
            group("coordination.k8s.io", "v1", "leases", namespace=LEASES),
            objects.LeaseFacts,
        ),
        _List("policies", group(*_ADMISSION, "validatingadmissionpolicies"), objects.PolicyFacts),
        _List(
            "policybindings",
            group(*_ADMISSION, "validatingadmissionpolicybindings"),
            objects.PolicyBinding,
        ),
        _List(
            "mutatingwebhooks",
            group(*_ADMISSION, "mutatingwebhookconfigurations"),
            objects.WebhookRegistration,
        ),
        _List(
            "validatingwebhooks",
            group(*_ADMISSION, "validatingwebhookconfigurations"),
            objects.WebhookRegistration,
        ),
        _List("configmaps", paths.in_core(NAMESPACE, "configmaps"), objects.ConfigMapFacts),
        _List(
            "runtimeclasses",
            group("node.k8s.io", "v1", "runtimeclasses"),
            objects.RuntimeClassFacts,
        ),
    )


class _Version(Struct, rename="camel"):
    git_version: str = ""


class ClusterReader:
    """Reads one cluster once."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[str, Any] = {}
        self._unread: dict[str, str] = {}
        self._missing: set[str] = set()

    async def read(self, who: KubeCredentials, node: str = "") -> InstallationSnapshot:
        """The cluster; of its nodes only the one that is named, if one is. Raises
        InstallationUnreadable, and as `Kube.call` does."""
        async with asyncio.TaskGroup() as group:
            for wanted in _lists():
                group.create_task(self._list(wanted), name=f"list {wanted.source}")
            group.create_task(self._events(), name="list events")
            group.create_task(self._version(), name="read the version")
            clock = group.create_task(self._clocks(who), name="read the clock")
        leases = self._read.get("leases", ())
        before = InstallationSnapshot(
            registry=load(installed=True), vendors={}, clock=clock.result(), **self._read,
            renewed_s=_times((x.metadata.name, x.spec.renew_time) for x in leases),
            written_s=_times((x.metadata.name, _last_write(x.metadata)) for x in leases),
            unread=self._unread, missing=frozenset(self._missing),
        )  # fmt: skip
        registry = _registry(before)
        whole = replace(
            before, registry=registry, vendors=monitoring(registry),
            configuration=_configuration(before),
        )  # fmt: skip
        whole = replace(whole, secrets=await self._secrets(whole))
        if node and "nodes" not in self._unread:
            whole = whole.narrowed(node)
            if not whole.nodes:
                raise InstallationUnreadable(f"node {node}: there is none of that name")
        return replace(whole, unread=self._unread)

    async def _list(self, wanted: _List) -> None:
        read = decoder(wanted.type)
        found: list[Any] = []
        try:
            async for page in pages(self._kube, wanted.path, limit=_PAGE, query=wanted.query):
                found += [read(bytes(raw)) for raw in page.items or ()]
        except ApiNotFound:
            self._missing.add(wanted.source)
        except ApiForbidden as e:
            self._forbidden(wanted.source, e)
        except msgspec.DecodeError as e:
            self._unread[wanted.source] = f"{wanted.source} are not of a known form: {e}"
        self._read[wanted.source] = (*self._read.get(wanted.source, ()), *found)

    async def _events(self) -> None:
        for reason in ALERTS:
            query = {"fieldSelector": f"reason={reason}"}
            await self._list(_List("events", "/api/v1/events", objects.EventFacts, query))

    def _forbidden(self, source: str, e: ApiForbidden) -> None:
        if e.status == 401:
            raise e
        self._unread[source] = e.message

    async def _version(self) -> None:
        answer = await self._kube.call(Verb.GET, "/version")
        self._read["server_version"] = decoder(_Version)(answer).git_version

    async def _clocks(self, who: KubeCredentials) -> ClockReading | None:
        began_s = self._clock.time()
        server_s = await read_server_time(who, call_s=_CALL_S)
        if server_s is None:
            return None
        return ClockReading(server_s=server_s, own_s=(began_s + self._clock.time()) / 2)

    async def _secrets(self, cluster: InstallationSnapshot) -> dict[str, frozenset[str]]:
        read, found = decoder(objects.SecretKeys), {}
        for name in sorted({BUS, *MADE_BY_SCHEDULER, *needed_secrets(cluster)}):
            path = paths.in_core(NAMESPACE, "secrets", name)
            try:
                found[name] = frozenset(read(await self._kube.call(Verb.GET, path)).data)
            except ApiNotFound:
                continue
            except ApiForbidden as e:
                self._forbidden("secrets", e)
                break
        return found


async def read_cluster(target: ClusterTarget, node: str, clock: Clock) -> InstallationSnapshot:
    """The cluster of the target. Raises InstallationUnreadable."""
    async with open_cluster(target, name="tessera-check", error=InstallationUnreadable) as cluster:
        try:
            return await ClusterReader(cluster.kube, clock).read(cluster.who, node)
        except BaseExceptionGroup as several:
            raise next(reasons(several)) from None


def _times(stamps: Iterable[tuple[str, str | None]]) -> dict[str, float]:
    found = {name: parse_time(stamp) for name, stamp in stamps}
    return {name: at for name, at in found.items() if at is not None}


def _last_write(meta: objects.FullMeta) -> str | None:
    return max((f.time for f in meta.managed_fields if f.time), default=None)


def _configuration(cluster: InstallationSnapshot) -> Any:
    found = _mounted(cluster, "kube-scheduler", "kube-scheduler.yaml")
    return found if isinstance(found, dict) else UNSET


def _registry(cluster: InstallationSnapshot) -> DialectRegistry:
    """The dialects as the installation has them; those of this release where it has none."""
    found = _mounted(cluster, "dialects", "dialects.yaml")
    if not isinstance(found, dict):
        return cluster.registry
    try:
        return load(found, installed=True)
    except BadConfiguration as e:
        raise InstallationUnreadable(
            f"ConfigMap {NAMESPACE}/tessera-dialects", str(e), "use the command of its release"
        ) from e


def _mounted(cluster: InstallationSnapshot, volume: str, file: str) -> Any:
    """A YAML file that the scheduler's Deployment mounts; None where there is none."""
    scheduler = cluster.scheduler
    volumes: Sequence[Any] = scheduler.spec.template.spec.volumes if scheduler is not None else ()
    name = next((v.config_map.name for v in volumes if v.name == volume and v.config_map), "")
    text = next((c.data.get(file, "") for c in cluster.configmaps if c.metadata.name == name), "")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
