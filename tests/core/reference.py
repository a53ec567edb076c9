"""The ledger computed a second time, from what the API server shows and nothing else.

It reads the JSON of pods and of the grants that they bear, adds up, and keeps nothing between two
looks. No code of the product is used: an error of the ledger's own arithmetic cannot hide here.

Rules, written down once more: an app container and a sidecar hold their share as long as the pod
lives; an init container holds its share next to the sidecars that come before it, one init
container at a time; init containers that have all ended well in a pod that never restarts hold
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Place = tuple[str, str, int]
"""Node, vendor, index of a card: what stays the same when its id changes."""
DIMENSIONS = ("memory", "cores", "slots", "alone")
"""Bytes, thousandths of a percent, containers, containers that have the card to themselves."""

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class ObservedPod:
    """A pod that holds something: as the API server shows it, or as it was promised."""

    grant: str
    """JSON."""
    pod: str = ""
    """JSON; empty = it is not shown (any more), and may have been shown as anything before."""


@dataclass
class Sums:
    """What pods hold: of each card, by its place and by its id, and in each namespace's quota."""

    cards: dict[Place, Counter[str]] = field(default_factory=dict)
    ids: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    pods: Counter[Place] = field(default_factory=Counter)
    """How many pods hold something of each card."""
    namespaces: dict[str, Counter[str]] = field(default_factory=dict)


def sums(pods: Iterable[ObservedPod], *, init_counts: bool = False) -> Sums:
    """What these pods hold. With `init_counts` init containers hold their shares though they are
    over: what is true until somebody looked."""
    total = Sums()
    for shown in pods:
        grant = json.loads(shown.grant)
        over = not init_counts and (not shown.pod or inits_are_over(json.loads(shown.pod)))
        for card, shares in _by_card(grant["shares"]).items():
            amounts = _most_at_once(shares, inits_over=over)
            if not any(amounts.values()):
                continue
            place = grant["node"], shares[0]["vendor"], shares[0]["index"]
            total.cards.setdefault(place, Counter()).update(amounts)
            total.pods[place] += 1
            total.ids.setdefault((grant["node"], card), Counter()).update(amounts)
            used = total.namespaces.setdefault(grant["namespace"], Counter())
            used.update({"memory": amounts["memory"], "cores": amounts["cores"], "cards": 1})
    return total


def overfull(held: Sums, has: Mapping[Place, Amounts]) -> dict[Place, Amounts]:
    """The cards that hold more than they have, or others together with a pod that has one to
    itself."""
    return {
        place: amounts
        for place, amounts in held.cards.items()
        if any(amounts[what] > has[place][what] for what in ("memory", "cores", "slots"))
        or (amounts["alone"] and held.pods[place] > 1)
    }


def inits_are_over(pod: Mapping[str, Any]) -> bool:
    """Whether no init container of the pod can run again."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    inits = [
        c["name"] for c in spec.get("initContainers", ()) if c.get("restartPolicy") != "Always"
    ]
    ended = {
        each["name"]
        for each in status.get("initContainerStatuses", ())
        if each.get("state", {}).get("terminated", {}).get("exitCode", 1) == 0
    }
    return bool(inits) and ended.issuperset(inits) and spec.get("restartPolicy") == "Never"


def _by_card(shares: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    cards: dict[str, list[Mapping[str, Any]]] = {}
    for share in shares:
        cards.setdefault(share["card"], []).append(share)
    return cards


def _most_at_once(shares: list[Mapping[str, Any]], *, inits_over: bool) -> dict[str, int]:
    """The most that the containers of one pod hold of one card at any time."""
    inits = [share for share in shares if share.get("role", "app") == "init"]
    stay = [share for share in shares if share not in inits]
    moments = [stay]
    if not inits_over:
        moments += [
            [init, *(s for s in stay if s["position"] < init["position"])] for init in inits
        ]
    sums_then = [{what: sum(_amount(s, what) for s in then) for what in DIMENSIONS}
                 for then in moments]  # fmt: skip
    return {what: max(each[what] for each in sums_then) for what in DIMENSIONS}


def _amount(share: Mapping[str, Any], what: str) -> int:
    match what:
        case "memory":
            return int(share["memory_bytes"])
        case "cores":
            thousandths = Fraction(str(share.get("cores_percent", 0))) * 1000
            assert thousandths.denominator == 1, share
            return int(thousandths)
        case "slots":
            return 1
        case _:
            return int(share.get("exclusive", False))
