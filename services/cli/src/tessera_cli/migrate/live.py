"""Reads from the API server what a dump would have, with the caller's own rights."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from tessera_cli.api_objects import open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.input.manifests import Item
from tessera_cli.kubeconfig import ClusterTarget
from tessera_cli.place.reservations import RESERVATION
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.errors import ApiForbidden, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import NONE, Kube
from tessera_runtime.kube.lists import pages
from tessera_schema.json_codec import decoder

_PAGE: Final = 500
_WHERE: Final = "cluster"


class MigrationUnreadable(CommandError):
    """The cluster cannot be read, or not all that a migration depends on; the message says why."""


class _List(Struct, frozen=True):
    path: str
    group: str = ""
    kind: str = ""
    """Empty = each object says its own."""
    query: Mapping[str, str] = NONE
    custom: bool = False
    """Whether a cluster may be without this kind."""
    spared: bool = False
    """Whether nothing that is in the way could be in it: a caller may lack the right to it."""


class _Head(Struct, frozen=True, rename="camel"):
    kind: str = ""


_read_head: Final = decoder(_Head)


async def read_objects(target: ClusterTarget, registry: DialectRegistry) -> list[Item]:
    """Nodes, namespaces, living pods, and what else says who gives a node's cards. Raises
    MigrationUnreadable: a part that is missing would hide what is in the way."""
    async with open_cluster(target, name="tessera-migrate", error=MigrationUnreadable) as cluster:
        return [
            item
            for wanted in _lists(registry)
            async for item in _items(cluster.kube, wanted)
        ]  # fmt: skip


def _lists(registry: DialectRegistry) -> Iterator[_List]:
    yield _List(paths.NODES, "", "Node")
    yield _List(paths.NAMESPACES, "", "Namespace")
    yield _List(paths.PODS, "", "Pod", {"fieldSelector": paths.LIVING})
    for plural, kind in (("daemonsets", "DaemonSet"), ("deployments", "Deployment")):
        yield _List(paths.in_group("apps", "v1", plural), "apps", kind)
    admission = "admissionregistration.k8s.io"
    webhooks = paths.in_group(admission, "v1", "mutatingwebhookconfigurations")
    yield _List(webhooks, admission, "MutatingWebhookConfiguration")
    group, kind = RESERVATION
    yield _List(paths.in_group(group, "v1alpha1", "reservations"), group, kind, custom=True)
    yield _List(
        "/api/v1/namespaces/volcano-system/configmaps", "", "ConfigMap", custom=True, spared=True
    )
    for path in dict.fromkeys(_custom_paths(registry)):
        yield _List(path, path.split("/")[2], custom=True)


def _custom_paths(registry: DialectRegistry) -> Iterable[str]:
    return (path for reader in registry.readers.values() for path in reader.custom_resources)


async def _items(kube: Kube, wanted: _List) -> AsyncGenerator[Item]:
    try:
        async for page in pages(kube, wanted.path, limit=_PAGE, query=wanted.query):
            for raw in page.items or ():
                kind = wanted.kind or _read_head(bytes(raw)).kind
                yield Item(_WHERE, wanted.group, "", kind, raw)
    except ApiNotFound:
        if not wanted.custom:
            raise
    except ApiForbidden:
        if not wanted.spared:
            raise
    except msgspec.DecodeError as e:
        raise MigrationUnreadable(f"{wanted.path}: an object is not of a known form: {e}") from e
