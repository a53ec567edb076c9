"""Which containers take part in lending, card by card, and on what terms at the moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_agent.containers.namespace_allowances import NamespaceAllowances
from tessera_agent.lending.bounds import LendingBounds
from tessera_agent.lending.throttle import FULL as UNTHROTTLED
from tessera_agent.lending.throttle import ThrottledNamespaces
from tessera_agent.usage.driver_evidence import DriverEvidence
from tessera_core.dialect_kit.lending_terms import FULL_PERCENT
from tessera_core.hook.limits_file import CardLimit, Mode
from tessera_core.node.core_lending import FULL

_PERMILLE: Final = 10
_AGAIN_S: Final = 2.0
"""Seconds for which the same containers are taken to be on the same terms."""


class LendingMember(Struct, frozen=True, kw_only=True):
    """A container on one card."""

    key: ContainerKey
    files: ContainerFiles
    card: str
    most_permille: int
    """Of the card, up to which it may be lent to."""
    lends: bool
    priority: int | None
    namespace: str
    reaches: bool
    """Its priority counts in other namespaces."""
    works: bool
    """The driver saw it work recently."""


class _Namespace(Struct, frozen=True, kw_only=True):
    """What holds for all containers of one."""

    name: str
    percent: float | None
    """Of their cores, which they get; None = not known."""
    reaches: bool


class LendingMembers:
    """The members of this node."""

    def __init__(
        self, pods: NodePods, bounds: LendingBounds, throttled: ThrottledNamespaces,
        allowances: NamespaceAllowances, evidence: DriverEvidence, *, most_percent: float,
    ) -> None:  # fmt: skip
        """Up to `most_percent` of a card is lent to a container that nothing else bounds."""
        self._pods = pods
        self._bounds = bounds
        self._throttled = throttled
        self._allowances = allowances
        self._evidence = evidence
        self._most_percent = most_percent
        self._known: Mapping[str, Sequence[LendingMember]] = {}
        self._of: list[str] = []
        self._at = float("-inf")

    def of(self, running: Sequence[Holding], now: float) -> Mapping[str, Sequence[LendingMember]]:
        """The members by card, of cards on which one could be lent to, or held. `now` is the loop's
        time. A card whose members are on the same terms as before has the same sequence."""
        ids = [held.id for held in running]
        if ids != self._of or now - self._at >= _AGAIN_S:
            self._of, self._at = ids, now
            found: dict[str, list[LendingMember]] = {}
            names = {held.pod.namespace for held in running}
            namespaces = {name: self._namespace(name, now) for name in names}
            for held in running:
                for member in self._members(held, namespaces[held.pod.namespace], now):
                    found.setdefault(member.card, []).append(member)
            before = self._known
            self._known = {
                card: before[card] if before.get(card) == all_ else all_
                for card, all_ in found.items() if _is_open(all_)
            }  # fmt: skip
        return self._known

    def _namespace(self, name: str, now: float) -> _Namespace:
        return _Namespace(
            name=name, percent=self._throttled.percent(name, now),
            reaches=self._allowances.count_elsewhere(name),
        )  # fmt: skip

    def _members(self, held: Holding, namespace: _Namespace, now: float) -> Iterable[LendingMember]:
        if held.files is None:
            return
        pod = self._pods.get(held.key.uid)
        lends = held.terms.lends if pod is None else pod.lends
        percent = namespace.percent
        for limit in held.files.limits.cards:
            bound = self._bounds.most(held.key, limit.uuid, now)
            most = self._most_percent if bound is None else bound
            ceiling = FULL_PERCENT if limit.is_rest else held.terms.ceiling_percent
            if limit.uuid in held.lowered if percent is None else percent < UNTHROTTLED:
                most = 0
            yield LendingMember(
                key=held.key, files=held.files, card=limit.uuid, lends=lends,
                priority=held.terms.priority, namespace=namespace.name,
                reaches=namespace.reaches,
                works=self._evidence.works(held.id, limit.uuid, now),
                most_permille=round(min(ceiling, most) * _PERMILLE),
            )  # fmt: skip


def _is_open(members: Sequence[LendingMember]) -> bool:
    """Whether one of them could be lent to, or held."""
    if len({m.priority for m in members if m.priority is not None}) > 1:
        return True
    return any(
        m.lends and _least(limit) < min(m.most_permille, FULL)
        for m in members
        for limit in m.files.limits.cards
        if limit.uuid == m.card and limit.mode is not Mode.OFF
    )


def _least(limit: CardLimit) -> int:
    """What it may use without a loan, in permille."""
    return limit.cores_permille or (0 if limit.is_rest else FULL)
