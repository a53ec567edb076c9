"""What bound pods were granted, as anybody can read it from the API server alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant, Share, decode_grant
from tests.contract.client import Json


def grant_of(pod: Json) -> Grant:
    """The pod's grant, which is for this pod and its node."""
    grant = decode_grant(pod["metadata"]["annotations"][GRANT_KEY])
    meta = pod["metadata"]
    assert (grant.uid, grant.namespace, grant.name, grant.node) == (
        meta["uid"], meta["namespace"], meta["name"], pod["spec"]["nodeName"],
    )  # fmt: skip
    return grant


def shares_on(pods: Sequence[Json]) -> Mapping[tuple[str, str], Sequence[Share]]:
    """Node and card -> what bound pods hold of it."""
    held: dict[tuple[str, str], list[Share]] = defaultdict(list)
    for pod in pods:
        for share in grant_of(pod).shares:
            held[grant_of(pod).node, share.card].append(share)
    return held


def nothing_is_overgranted(pods: Sequence[Json], cards: Mapping[str, Mapping[str, Card]]) -> None:
    """No card gives more memory, cores or slots than it has, and none is made up."""
    for (node, card), shares in shares_on(pods).items():
        has = cards[node][card]
        assert sum(s.memory_bytes for s in shares) <= has.memory_bytes, (node, card, shares)
        assert sum(s.cores_percent for s in shares) <= has.cores_percent, (node, card, shares)
        assert len(shares) <= has.slots, (node, card, len(shares))
