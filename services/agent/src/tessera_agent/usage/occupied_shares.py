"""Shares that containers hold although their pod is gone: the scheduler counts them until the
containers end."""

from __future__ import annotations

from typing import NoReturn

from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, Holding
from tessera_agent.events import DeviceStatePublisher
from tessera_schema.messages.device_reports import Occupied


class OccupiedShares:
    """Publishes such shares of this node with the state of its cards."""

    def __init__(
        self, holdings: ContainerRegistry, pods: NodePods, states: DeviceStatePublisher
    ) -> None:
        self._holdings = holdings
        self._pods = pods
        self._states = states

    async def follow_pods(self) -> NoReturn:
        """Publish at once when a pod is gone whose containers run, for ever."""
        while True:
            await self._pods.ended.wait()
            self._pods.ended.clear()
            self.publish()

    def publish(self) -> None:
        """Publish which shares are held now although their pod is gone."""
        left: dict[str, list[Holding]] = {}
        for held in self._holdings:
            if held.holds and self._pods.is_gone(held.key.uid, held.since):
                left.setdefault(held.key.uid, []).append(held)
        self._states.occupy([
            Occupied(
                uid=uid, namespace=held[0].pod.namespace, name=held[0].pod.name,
                shares=tuple(share for one in held for share in one.shares),
            )
            for uid, held in sorted(left.items())
        ])  # fmt: skip
