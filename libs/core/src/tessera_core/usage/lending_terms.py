"""Who holds what, as hints and lending see it: the grant, and what its pod says about lending."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tessera_core.dialect_kit.lending_terms import WrittenTerms
from tessera_core.registry.lending import terms_of
from tessera_core.registry.registry import DialectRegistry
from tessera_core.usage.smoothed import Key
from tessera_schema.grants import Grant
from tessera_schema.injections import Injection
from tessera_schema.kube import Container, Pod


class GrantedShare(Struct, frozen=True, kw_only=True, gc=False):
    """What one container was granted of one card."""

    namespace: str = ""
    memory_bytes: int = 0
    cores_percent: float = 0
    """0 = no promise, and no limit."""
    best_effort: bool = False
    """True = it has the time that others leave: what it wants costs them nothing."""
    lent: bool = False
    """True = its memory is lent: it takes no slot that an owner could have."""
    lends: bool = True
    """False = its pod takes no part in lending."""
    most_cores_percent: float | None = None
    """How far its author lets it grow into idle cores; None = it said nothing."""
    priority: int | None = None
    """The smaller goes before the larger of its namespace; None = it goes before nobody, and nobody
    before it."""
    owner: str = ""
    """Uid of the controller that made its pod; empty = none that is known."""


Holders = Mapping[Key, GrantedShare]


def granted_shares_of(
    grant: Grant, pod: Pod, registry: DialectRegistry, owner: str = ""
) -> dict[Key, GrantedShare]:
    """What each container of the pod was granted of each card; `owner` is `GrantedShare.owner`."""
    containers = {c.name: c for c in pod.all_containers}
    held: dict[Key, GrantedShare] = {}
    for share in grant.shares:
        container = containers.get(share.container, Container(name=share.container))
        given = grant.given.get(share.container, Injection())
        env = {**{each.name: each.value for each in container.env}, **given.env}
        terms = terms_of(registry.readers, (share.dialect,), WrittenTerms(pod=pod, env=env))
        held[grant.uid, share.container, share.card] = GrantedShare(
            namespace=grant.namespace, memory_bytes=share.memory_bytes,
            cores_percent=share.cores_percent, best_effort=bool(share.best_effort),
            lent=bool(share.lent), lends=terms.lends, most_cores_percent=terms.most_percent,
            priority=terms.priority, owner=owner,
        )  # fmt: skip
    return held
