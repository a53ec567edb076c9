"""From what was measured and what was granted to what is reported about a node's cards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.shared_values import one_number
from tessera_core.usage.crowding import crowded_percent
from tessera_core.usage.lending_bounds import HeldContainer, LendingRules, card_bounds, is_full
from tessera_core.usage.lending_terms import GrantedShare, Holders
from tessera_core.usage.memory_needs import MemoryNeeds
from tessera_core.usage.priced_cards import CardPricer, PricedCard
from tessera_core.usage.smoothed import SmoothCard, SmoothContainer, SmoothNode
from tessera_schema.messages.hints import CardHint, LendingBound, MemoryNeed, NodeHints

_NOTHING = GrantedShare()


class SignificantChanges(Struct, frozen=True, kw_only=True):
    """Changes of a card that are worth a message."""

    percent: float = 5.0
    """Of what is busy, contended, idle, of prices: the least that any reader of hints looks at."""
    memory_bytes: int = 1 << 30
    """Of idle memory."""
    trend_percent: float = 25.0
    """Per hour."""
    confidence: float = 0.25
    """0 to 1."""


class HintBuilder:
    """Makes hints of nodes; it remembers where lending was stopped, and what pods wanted."""

    def __init__(
        self, rules: LendingRules | None = None, pricer: CardPricer | None = None,
        needs: MemoryNeeds | None = None,
    ) -> None:  # fmt: skip
        """`rules` are those of lending."""
        self.rules = rules or LendingRules()
        self.pricer = pricer or CardPricer()
        self.needs = needs or MemoryNeeds()
        self._full: dict[str, frozenset[str]] = {}

    def build(self, seen: SmoothNode, holders: Holders) -> NodeHints:
        """What is to be reported about a node now. A container that is not in `holders` counts as
        granted nothing. `holders` is never changed: when others hold cards it is another object."""
        cards: list[CardHint] = []
        bounds: list[LendingBound] = []
        before, full = self._full.get(seen.node, frozenset()), set()
        priced = self.pricer.price(seen, holders)
        prices = priced.cards
        self.needs.take(seen, holders)
        for card in seen.cards:
            on = [(one, holders.get(one.key)) for one in card.containers]
            hint = _card_hint(card, on, prices[card.card])
            cards.append(replace(hint, needs=self.needs.of(card, seen, holders)))
            if is_full(on, self.rules, was=card.card in before):
                full.add(card.card)
            bounds += card_bounds(on, self.rules, full=card.card in full)
        self._full.pop(seen.node, None)
        if full:
            self._full[seen.node] = frozenset(full)
        return NodeHints(
            node=seen.node, at=seen.at, cards=tuple(cards), bounds=tuple(bounds), wants=priced.wants
        )

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._full.pop(node, None)
        self.pricer.forget(node)
        self.needs.forget(node)


def _card_hint(card: SmoothCard, on: Sequence[HeldContainer], priced: PricedCard) -> CardHint:
    """One card, with what its containers were granted and do not use. What best-effort containers
    use and want counts nothing: it is there for others."""
    idle_cores, idle_memory, waits, rest = 0.0, 0, 0.0, 0.0
    for one, granted in on:
        held = granted or _NOTHING
        idle_cores += max(0.0, held.cores_percent - one.cores_percent)
        idle_memory += max(0, held.memory_bytes - one.memory_peak_bytes)
        if held.best_effort:
            rest += one.cores_percent
        elif not _is_lowered(one, held):
            waits = max(waits, one.waiting_percent)
    busy = max(card.busy_percent - rest, 0.0)
    waits = max(waits, _crowded(card, busy) if rest else card.crowded_percent)
    return CardHint(
        card=card.card, busy_percent=one_number(round(busy, 1)),
        contended_percent=one_number(round(waits, 1)),
        idle_cores_percent=one_number(round(min(idle_cores, 100.0), 1)),
        idle_memory_bytes=idle_memory, trend_percent=one_number(round(card.trend_percent, 1)),
        confidence=one_number(round(card.confidence, 2)), expected_percent=priced.expected_percent,
        prices=priced.prices, holders=priced.holders,
    )  # fmt: skip


def _crowded(card: SmoothCard, busy_percent: float) -> float:
    """How crowded the card would be if it were only so busy, at most."""
    return min(crowded_percent(busy_percent), card.crowded_percent)


def _is_lowered(one: SmoothContainer, held: GrantedShare) -> bool:
    """Whether it waits because its cores were lowered below what it was granted: no other card
    would give it more."""
    return 0 < one.cores_limit_percent < held.cores_percent - 0.1


def is_significant(former: NodeHints | None, hints: NodeHints, steps: SignificantChanges) -> bool:
    """Whether the message says what the one before did not."""
    if former is None or former.bounds != hints.bounds:
        return True
    pairs = zip_longest(former.cards, hints.cards)
    return any(a is None or b is None or _differ(a, b, steps) for a, b in pairs)


def _differ(former: CardHint, now: CardHint, steps: SignificantChanges) -> bool:
    percent = steps.percent
    return (
        former.card != now.card
        or _needs_differ(former.needs, now.needs, steps)
        or former.holders != now.holders
        or abs(former.busy_percent - now.busy_percent) >= percent
        or abs(former.contended_percent - now.contended_percent) >= percent
        or abs(former.idle_cores_percent - now.idle_cores_percent) >= percent
        or abs(former.idle_memory_bytes - now.idle_memory_bytes) >= steps.memory_bytes
        or abs(former.trend_percent - now.trend_percent) >= steps.trend_percent
        or abs(former.confidence - now.confidence) >= steps.confidence
        or (former.prices != now.prices and _prices_differ(former.prices, now.prices, percent))
    )


def _prices_differ(former: Sequence[int], now: Sequence[int], percent: float) -> bool:
    return len(former) != len(now) or any(
        abs(a - b) >= percent for a, b in zip(former, now, strict=True)
    )


def _needs_differ(
    former: tuple[MemoryNeed, ...] | None, now: tuple[MemoryNeed, ...] | None,
    steps: SignificantChanges,
) -> bool:  # fmt: skip
    if former is None or now is None:
        return former is not now
    pairs = zip_longest(former, now)
    return any(
        a is None or b is None or a.uid != b.uid
        or abs(a.memory_bytes - b.memory_bytes) >= steps.memory_bytes
        for a, b in pairs
    )  # fmt: skip
