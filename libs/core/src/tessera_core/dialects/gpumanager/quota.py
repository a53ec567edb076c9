"""The ConfigMap of gpu-admission's quotas as limits.

    gpu_quota: '{"team-a": {"quota": {"M40": 2, "P100": 1}, "pool": ["public"]}}'

A namespace that is listed gets so many cards of each model, of no other model, and only on nodes of
those pools; one that is not listed is not limited. gpu-admission reads models from nodes' labels;
here a model is part of the card's own. What makes no sense is refused whole: gpu-admission goes on
with what it read before, and so does the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from tessera_core.dialect_kit import BadLimit, Limit
from tessera_core.dialects.gpumanager.names import VENDOR

KEY: Final = "gpu_quota"
POOL_LABELS: Final = ("gaia.tencent.com/gpu-pool", "tkestack.io/gpu-pool")
"""Labels of nodes that gpu-admission is configured with: as shipped, and as documented."""


class _Quota(Struct, frozen=True, forbid_unknown_fields=True):
    quota: dict[str, Annotated[float, Meta(ge=0)]] = {}
    pool: tuple[str, ...] = ()


def limits(data: Mapping[str, str], source: str) -> tuple[Limit, ...]:
    """A limit for each namespace that is listed. Raises BadLimit."""
    text = data.get(KEY)
    if text is None:
        known = ", ".join(sorted(data)) or "nothing"
        raise BadLimit(f"data[{KEY}]", known, "the ConfigMap has no such key: add it")
    try:
        quotas = _decode(text)
    except (msgspec.DecodeError, RecursionError) as e:
        shown = text if len(text) <= 120 else f"{text[:117]}..."
        raise BadLimit(f"data[{KEY}]", shown, f"{e}: write namespaces with quota and pool") from e
    return tuple(
        Limit(
            namespace=namespace, source=f"{source} ({namespace})", vendor=VENDOR,
            models=dict(quota.quota), node_pools=quota.pool,
        )
        for namespace, quota in quotas.items()
    )  # fmt: skip


_decode = msgspec.json.Decoder(dict[str, _Quota]).decode
