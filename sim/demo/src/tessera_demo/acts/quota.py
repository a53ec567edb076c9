"""The quota monitor: a team's AcceleratorQuota, and what the monitor counts of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from tessera_core.quota.objects import VERSION
from tessera_demo.observations import Observations
from tessera_demo.promises import Promise, grants
from tessera_demo.stage import DemoStage
from tessera_runtime.errors import Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_schema.annotation_keys import GROUP, QUOTA_KIND

_PLURAL: Final = "acceleratorquotas"
_COUNTED_S: Final = 60.0
"""Seconds for the monitor to count pods that run: it writes a status every few seconds."""
_LOOK_S: Final = 0.5


def path_of(quota: Mapping[str, Any], name: str = "") -> str:
    """The API path of a quota object's kind in its namespace, or of the object."""
    namespace = quota["metadata"]["namespace"]
    if quota["kind"] == QUOTA_KIND:
        return paths.in_group(GROUP, VERSION, _PLURAL, namespace=namespace, name=name)
    return paths.in_core(namespace, "resourcequotas", name)


async def play_quota(stage: DemoStage, seen: Observations) -> list[Promise]:
    """What the monitor says of each AcceleratorQuota, against the grants of its namespace."""
    own = [quota for quota in stage.scene.quotas if quota["kind"] == QUOTA_KIND]
    return [await _counted(stage, seen, quota) for quota in own]


async def _counted(stage: DemoStage, seen: Observations, quota: Mapping[str, Any]) -> Promise:
    meta = quota["metadata"]
    held = [
        (grant.uid, share.card)
        for grant in grants(seen).values()
        if grant.namespace == meta["namespace"]
        for share in grant.shares
    ]
    cards, used = len(set(held)), "nothing"
    with suppress(TimeoutError):
        async with asyncio.timeout(_COUNTED_S):
            while used != f"{cards} cards":
                used = await _used(stage, path_of(quota, meta["name"]))
                await asyncio.sleep(_LOOK_S)
    allowed = quota["spec"]["hard"]["cards"]
    text = f"the quota monitor counts {cards} of the {allowed} cards of namespace "
    return Promise(
        f"quota {meta['namespace']}", text + meta["namespace"], used == f"{cards} cards",
        f"it counted {used}",
    )  # fmt: skip


async def _used(stage: DemoStage, path: str) -> str:
    with suppress(Transient):
        found = msgspec.json.decode(await stage.kube.call(Verb.GET, path))
        used = found.get("status", {}).get("used", {})
        return f"{used.get('cards', 0):g} cards"
    return "nothing"
