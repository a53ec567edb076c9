"""What a container that holds shares is given by one vendor's agent: the vendor's part, and over it
the dialect's, which the scheduler wrote into the grant.

The cards' identity is given by the vendor: a dialect may number cards otherwise than the node
does. Of the dialect's part, folders and device nodes are left out: they belong to the system that
it comes from, which does not run here, and a source that is missing fails the container. Where that
system mounts the driver, our own links to it are mounted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tessera_core.dialect_kit.contract import Vendor
from tessera_core.grants.result_annotations import merge
from tessera_core.hook.paths import DRIVER_HOST, HOOK_LIBRARY_HOST
from tessera_schema.cards import Card
from tessera_schema.grants import Grant, Share
from tessera_schema.injections import Injection, Mount

_NOTHING: Final = Injection()


def container_injection(
    container: str,
    grant: Grant,
    shares: Sequence[Share],
    *,
    vendor: Vendor,
    vendors: Mapping[str, Vendor],
    cards: Mapping[str, Card],
) -> Injection:
    """`shares` are the container's of this vendor's `cards`; `vendors` are all, by name."""
    own = vendor.give(shares, cards)
    if _giver(container, grant, vendors) != vendor.name:
        return own
    given = grant.given.get(container, _NOTHING)
    return merge([
        own,
        Injection(
            env={name: value for name, value in given.env.items() if name not in own.env},
            mounts=tuple(_mounts(given, vendor)),
            annotations=given.annotations,
        ),
    ])  # fmt: skip


def _mounts(given: Injection, vendor: Vendor) -> Iterator[Mount]:
    for mount in given.mounts:
        if mount.source == HOOK_LIBRARY_HOST:
            yield mount
        elif mount.destination == vendor.driver:
            yield Mount(destination=vendor.driver, source=DRIVER_HOST)


def _giver(container: str, grant: Grant, vendors: Mapping[str, Vendor]) -> str:
    """The vendor whose agent gives what the dialects add, so that two agents on one node do not
    both: the first by name that gives anything itself."""
    by_vendor: dict[str, list[Share]] = {}
    for share in grant.shares:
        if share.container == container:
            by_vendor.setdefault(share.vendor, []).append(share)
    giving = [
        name for name, shares in by_vendor.items()
        if name in vendors and vendors[name].give(shares, {}) != _NOTHING
    ]  # fmt: skip
    return min(giving or by_vendor)
