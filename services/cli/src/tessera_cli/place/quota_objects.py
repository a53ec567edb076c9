"""Quota objects of a file as limits; their meaning is `tessera_core.quota.objects`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_cli.errors import Malformed
from tessera_cli.input.manifests import named
from tessera_cli.place.decode import convert
from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.dialects.gpumanager import quota as gpumanager
from tessera_core.quota.objects import (
    VERSION,
    AcceleratorQuota,
    ResourceQuota,
    accelerator_limit,
    resource_limits,
)
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import ObjectMeta
from tessera_schema.quotas import Limit

GPU_QUOTA: Final = ("kube-system", "gpuquota")
"""Namespace and name of GPU Manager's ConfigMap of quotas."""


def resource_quota(
    raw: Mapping[str, Any], registry: DialectRegistry, where: str, notify: Callable[[str], None]
) -> Iterator[Limit]:
    """A limit for each entry that a dialect owns; the others are not for Tessera. Raises
    Malformed."""
    quota = convert(raw, ResourceQuota, where)
    try:
        yield from resource_limits(quota, registry, lambda text: notify(f"{where}: {text}"))
    except BadLimit as e:
        raise _malformed(where, e) from e


def accelerator_quota(
    raw: Mapping[str, Any], registry: DialectRegistry, where: str, version: str
) -> Limit:
    """The limit that an AcceleratorQuota sets. Raises Malformed."""
    if version != VERSION:
        raise Malformed(where, "apiVersion", version, f"write tessera.dev/{VERSION}")
    try:
        return accelerator_limit(convert(raw, AcceleratorQuota, where), registry)
    except BadLimit as e:
        raise _malformed(where, e) from e


def gpu_quota(raw: Mapping[str, Any], where: str) -> tuple[Limit, ...]:
    """The limits of GPU Manager's ConfigMap of quotas. Raises Malformed."""
    found = convert(raw, _ConfigMap, where)
    try:
        return gpumanager.limits(found.data, f"ConfigMap {found.metadata.name}")
    except BadLimit as e:
        raise _malformed(where, e) from e


class _ConfigMap(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


def _malformed(where: str, error: BadLimit) -> Malformed:
    a_name = error.field == "spec.vendor"
    return Malformed(
        where, error.field, error.value if a_name else named(error.value), error.remedy
    )
