"""Follows the pods that hold cards, and what all pods request of their nodes where nobody else
does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tessera_core.gangs.group_names import named_group
from tessera_core.ledger.change_log import ChangeLog
from tessera_core.preemption.potential_victims import PotentialVictim
from tessera_core.slices import Slices, for_each
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_schema.kube import Pod


class RunningPods:
    """Bound pods that may have to go for others."""

    def __init__(self, nodes: GangNodes | None) -> None:
        """`nodes` get what every bound pod requests; None where others see to that."""
        self._nodes = nodes
        self._known: dict[str, PotentialVictim] = {}
        self._grouped: dict[str, Pod] = {}
        self._leaving: frozenset[str] = frozenset()
        self.changes = ChangeLog()
        """Of `all`."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known)

    def all(self) -> Mapping[str, PotentialVictim]:
        """All of them as they are now, by uid."""
        return dict(self._known)

    def grouped(self) -> tuple[Pod, ...]:
        """Those that name a gang."""
        return tuple(self._grouped.values())

    def get(self, uid: str) -> PotentialVictim | None:
        """The pod of this uid."""
        return self._known.get(uid)

    def set_leaving(self, uids: frozenset[str]) -> None:
        """The pods that are being evicted by plans."""
        changed, self._leaving = uids ^ self._leaving, uids
        for uid in changed & self._known.keys():
            self._put(replace(self._known[uid], leaving=uid in uids))

    # -- what watches show

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """Take all pods."""
        running = [item for item in items if item.node and not item.ended]
        yield
        uids = {item.uid for item in running}
        yield
        if self._nodes is not None:
            self._nodes.only(uids)
        for uid in [uid for uid in self._known if uid not in uids]:
            self._drop(uid)
        yield
        yield from for_each(running, self.on_pod)

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        if item.ended:
            self.on_pod_gone(item)
            return
        if item.victim is not None:
            leaves = item.uid in self._leaving
            self._put(replace(item.victim, leaving=True) if leaves else item.victim)
            self._grouped.pop(item.uid, None)
            if named_group(item.victim.pod) is not None:
                self._grouped[item.uid] = item.victim.pod
        if item.node and self._nodes is not None:
            self._nodes.hold(item.uid, item.node, item.host)

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted, or has ended."""
        self._drop(item.uid)
        if self._nodes is not None:
            self._nodes.release(item.uid)

    # -- what is known

    def _put(self, victim: PotentialVictim) -> None:
        """Most events of a pod change nothing that matters here."""
        known = self._known.get(victim.uid)
        if known is not victim and known != victim:
            self._known[victim.uid] = victim
            self.changes.add(victim.uid)

    def _drop(self, uid: str) -> None:
        self._grouped.pop(uid, None)
        if self._known.pop(uid, None) is not None:
            self.changes.add(uid)
