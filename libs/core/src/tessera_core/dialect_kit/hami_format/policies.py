"""How a pod asks for its node and cards to be chosen: three annotations, for every vendor.

HAMi sorts a node's cards ascending and walks the list from its end, so here the last card of its
order is the first; equal cards go by NUMA node and then by index, the higher first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tessera_core.dialect_kit.amounts import InvalidField, invalid_field
from tessera_core.dialect_kit.hami_format.pod_annotations import annotation_field
from tessera_schema.requests import CardKey, Choice, NodeOrder, Policy, Weights

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
CARD_POLICY: Final = "hami.io/gpu-scheduler-policy"
WEIGHTS: Final = "hami.io/device-scoring-weights"
POLICY_KEYS: Final = frozenset({NODE_POLICY, CARD_POLICY, WEIGHTS})

NODE_POLICIES: Final = ("binpack", "spread")
_TOPOLOGY: Final = "topology-aware"
CARD_POLICIES: Final = ("binpack", "spread", "numa", "mutex", _TOPOLOGY)
_DIMENSIONS: Final = ("slot", "core", "memory")
_KEYS: Final = {
    "binpack": CardKey.BINPACK,
    "spread": CardKey.SPREAD,
    "numa": CardKey.NUMA_HIGH,
}
_WEIGHT: Final = re.compile(r"[+]?[0-9]{1,18}")


def policy_of(
    notes: Mapping[str, str],
    *,
    node: str = "binpack",
    cards: str = "spread",
    numa_bind: bool = False,
    topology: bool = False,
) -> Policy:
    """The policy that a pod's annotations ask for; `node` and `cards` hold where it is silent.

    `topology` says whether links between the vendor's cards are known; without them
    `topology-aware` is plain spreading. Raises InvalidField for malformed weights.
    """
    node = notes.get(NODE_POLICY, "").strip() or node
    chain = card_words(notes.get(CARD_POLICY, "")) or card_words(cards)
    return Policy(
        node=NodeOrder.SPREAD if node == "spread" else NodeOrder.BINPACK,
        cards=_card_keys(chain, numa_bind=numa_bind),
        highest_index_first=True,
        choice=Choice.LINKS if topology and _TOPOLOGY in chain else Choice.ORDERED,
        idle_cards_only="mutex" in chain,
        same_numa=numa_bind,
        weights=_weights(notes),
    )


def policy_warnings(notes: Mapping[str, str], *, topology: bool = False) -> tuple[str, ...]:
    """Words that HAMi passes over in silence; `topology` as in `policy_of`."""
    node = notes.get(NODE_POLICY, "").strip()
    messages = []
    if node and node not in NODE_POLICIES:
        messages.append(
            f"{annotation_field(NODE_POLICY)}: {node}: no such policy, binpack is used; "
            f"write one of {', '.join(NODE_POLICIES)}"
        )
    unknown = [w for w in card_words(notes.get(CARD_POLICY, "")) if w not in CARD_POLICIES]
    if unknown:
        messages.append(
            f"{annotation_field(CARD_POLICY)}: {', '.join(unknown)}: no such policy, it is passed "
            f"over; write some of {', '.join(CARD_POLICIES)}"
        )
    if not topology and _TOPOLOGY in card_words(notes.get(CARD_POLICY, "")):
        messages.append(
            f"{annotation_field(CARD_POLICY)}: {_TOPOLOGY}: passed over, links between this "
            "vendor's cards are not known; write binpack, spread, numa or mutex"
        )
    return tuple(messages)


def card_words(text: str) -> tuple[str, ...]:
    """The links of a chain of card policies, trimmed, each once."""
    return tuple(dict.fromkeys(w for w in (word.strip() for word in text.split(",")) if w))


def _card_keys(chain: tuple[str, ...], *, numa_bind: bool) -> tuple[CardKey, ...]:
    if len(chain) == 1 and chain[0] != "numa":
        return _single(chain[0], numa_bind=numa_bind)
    keys = tuple(_KEYS[word] for word in chain if word in _KEYS) or (CardKey.SPREAD,)
    if numa_bind:
        keys = (CardKey.NUMA_HIGH, *(k for k in keys if k is not CardKey.NUMA_HIGH))
    return keys


def _single(word: str, *, numa_bind: bool) -> tuple[CardKey, ...]:
    """A lone policy; every unknown one spreads, `topology-aware` too."""
    if word == "mutex":
        return (CardKey.FEWEST_SHARERS, CardKey.NUMA_HIGH)
    key = CardKey.BINPACK if word == "binpack" else CardKey.SPREAD
    if not numa_bind:
        return (key, CardKey.NUMA_HIGH)
    return (CardKey.NUMA_LOW if word == "binpack" else CardKey.NUMA_HIGH, key)


def _weights(notes: Mapping[str, str]) -> Weights:
    """`slot=a,core=b,memory=c` in any order: each once, whole, not negative, not all 0."""
    text = notes.get(WEIGHTS)
    if text is None:
        return Weights()
    given: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in _DIMENSIONS or name in given or not _WEIGHT.fullmatch(number):
            raise _bad_weights(text)
        given[name] = int(number)
    if len(given) != len(_DIMENSIONS) or not any(given.values()):
        raise _bad_weights(text)
    return Weights(**given)


def _bad_weights(text: str) -> InvalidField:
    return invalid_field(
        annotation_field(WEIGHTS),
        text,
        "write slot, core and memory once each with whole numbers from 0 up, not all 0, "
        "such as slot=1,core=1,memory=3",
    )
