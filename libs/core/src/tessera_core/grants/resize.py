"""A live resize: from what is asked of a bound pod to its next grant.

Shares that are limited by a vendor's own tools cannot be changed while their containers run, and
who holds a card alone has nothing to change.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Vendor
from tessera_core.fleet.cores import milli, percent
from tessera_schema.cards import MIB, MOST_MEMORY_BYTES
from tessera_schema.grants import Grant, Share
from tessera_schema.resizes import Resize, ShareChange

_FULL: float = 100


def resized(grant: Grant, asked: Resize, vendors: Mapping[str, Vendor]) -> Grant | str:
    """The pod's next grant; the same one where nothing would change; else why there is none."""
    if not asked.changes:
        return "changes: none: name a container, a card and what it shall have"
    shares = {(share.container, share.card): share for share in grant.shares}
    first = dict(shares)
    for i, change in enumerate(asked.changes):
        key = (change.container, change.card)
        share = first.get(key)
        if share is None:
            return f"changes[{i}]: container {key[0]} holds nothing of card {key[1]}"
        problem = _problem(share, change, vendors)
        if problem:
            return f"changes[{i}].{problem}"
        shares[key] = _changed(shares[key], change)
    if shares == first:
        return grant
    return replace(grant, shares=tuple(shares.values()), revision=grant.revision + 1)


def follows(new: Grant, old: Grant) -> bool:
    """Whether a grant can be a later one of the same pod: nothing but amounts differs."""
    places = [[(s.container, s.position, s.card) for s in g.shares] for g in (new, old)]
    same = (new.uid, new.node) == (old.uid, old.node) and places[0] == places[1]
    return same and new.revision > old.revision


def _problem(share: Share, change: ShareChange, vendors: Mapping[str, Vendor]) -> str:
    """What of a change makes no sense for the share; empty when nothing."""
    vendor = vendors.get(share.vendor)
    if vendor is None or not vendor.hooked:
        return f"card: {share.card} is limited by its vendor's own tools: create the pod again"
    if share.exclusive:
        return f"card: {share.card} is held whole: there is nothing to change"
    if share.lent:
        return f"card: {share.card} lends its memory: create the pod again with another amount"
    memory, cores = change.memory_bytes, change.cores_percent
    if memory is not None and not MIB <= memory <= MOST_MEMORY_BYTES:
        return f"memory_bytes: {memory}: write {MIB} (1 MiB) or more, up to the card's memory"
    if cores is not None and not 0 < cores <= _FULL:
        return f"cores_percent: {cores:g}: write more than 0, up to 100"
    return ""


def _changed(share: Share, change: ShareChange) -> Share:
    if change.memory_bytes is not None:
        share = replace(
            share, memory_bytes=change.memory_bytes,
            resident_bytes=_resident(share, change.memory_bytes),
        )  # fmt: skip
    if change.cores_percent is not None:
        share = replace(share, cores_percent=percent(milli(change.cores_percent)))
    return share


def _resident(share: Share, memory: int) -> int | UnsetType:
    """The same part of another amount of memory lies on the card."""
    if share.resident_bytes is UNSET or not share.memory_bytes:
        return share.resident_bytes
    return memory * share.resident_bytes // share.memory_bytes // MIB * MIB
