"""A node: its kubelet, and its agent as far as it decides what starts and reports what runs.

A container starts only if `tessera_core.node.container_admission` gives it its shares, as in the
agent. What then runs is computed here by plain addition, without a ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tessera_core.fleet.charges import Charge, charge_of
from tessera_core.node.container_admission import (
    ContainerCreation,
    Granted,
    NodeContext,
    RefusalReason,
    Refused,
    admit_container,
)
from tessera_runtime.bus.outbox import Outbox
from tessera_schema.grants import GRANT_KEY, Grant, Share
from tessera_schema.kube import Container, Pod
from tessera_schema.messages.device_reports import DeviceState, Occupied, encode
from tessera_schema.subjects import DEVICES_BUCKET
from tests.machine.agents import Agent
from tests.machine.cluster import VENDOR, Cluster
from tests.machine.truth import fits
from tests.scheduler.fake_cluster import REGISTRY


class _Runs:
    """What runs of a pod."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.grant: Grant | None = None
        self.shares: dict[str, tuple[Share, ...]] = {}
        """Container -> what it holds."""
        self.done: set[str] = set()


class Node:
    """A machine with cards."""

    def __init__(self, name: str, cluster: Cluster, outbox: Outbox, agent: Agent) -> None:
        self.name = name
        self.agent = agent
        self.refused: dict[str, set[str]] = {}
        """Card -> uids of the pods that it had no room for."""
        self._cluster = cluster
        self._outbox = outbox
        self._runs: dict[str, _Runs] = {}

    # -- kubelet

    def reconcile(self) -> None:
        """Start what is bound here, stop what is to end, report the state."""
        pods = self._cluster.truth.pods
        if self.agent.works:
            self._resize()
        for uid in list(pods):
            pod = pods.get(uid)
            if pod is not None and pod.spec.node_name == self.name and not pod.terminal:
                if pod.metadata.deletion_timestamp:
                    self._runs.pop(uid, None)
                    self._cluster.delete(uid, 0)
                elif self.agent.works:
                    self._go_on(pod)
        self.report()

    def ends(self, uid: str, *, well: bool) -> None:
        """All containers of a pod end."""
        self._runs.pop(uid, None)
        if uid in self._cluster.truth.pods:
            status = {"status": {"phase": "Succeeded" if well else "Failed"}}
            self._cluster.call("PATCH", f"{self._cluster.path(uid)}/status", status)

    def reap(self) -> None:
        """Containers whose pods are gone end at last."""
        for uid in self.orphans():
            del self._runs[uid]
        self.report()

    def orphans(self) -> list[str]:
        """Pods that are gone, and run."""
        pods = self._cluster.truth.pods
        return [uid for uid in self._runs if uid not in pods or pods[uid].terminal]

    def runs(self, uid: str) -> bool:
        """Whether any container of the pod runs with cards."""
        return uid in self._runs and any(self._runs[uid].shares.values())

    def report(self) -> None:
        """Publish the agent's report on its cards, if it runs."""
        if not self.agent.works:
            return
        state = DeviceState(
            node=self.name, vendor=VENDOR, cards=self._cluster.cards_of(self.name),
            occupied=tuple(self._left(uid) for uid in self.orphans() if self.runs(uid)),
        )  # fmt: skip
        self._outbox.publish_state(
            DEVICES_BUCKET, f"{self.name}.{VENDOR}", "dev.tessera.device", encode(state)
        )

    def _left(self, uid: str) -> Occupied:
        runs = self._runs[uid]
        return Occupied(
            uid=uid, namespace=runs.pod.metadata.namespace, name=runs.pod.name,
            shares=tuple(s for shares in runs.shares.values() for s in shares),
        )  # fmt: skip

    def _resize(self) -> None:
        """Live, by later grants: first containers that have to give back, then those that get more,
        as far as the cards have it."""
        for pick in (min, max):
            for uid, runs in self._runs.items():
                bound = self._cluster.truth.bound.get(uid)
                if bound is not None and runs.grant is not None:
                    if bound.grant.revision > runs.grant.revision:
                        self._bring(runs, bound.grant, pick)
                    if pick is max and not self._behind(runs, bound.grant):
                        runs.grant = bound.grant

    def _bring(self, runs: _Runs, grant: Grant, pick: Callable[[int, int], int]) -> None:
        later = {(s.container, s.card): s.memory_bytes for s in grant.shares}
        for name, shares in runs.shares.items():
            runs.shares[name] = tuple(
                replace(s, memory_bytes=pick(s.memory_bytes, later[name, s.card])) for s in shares
            )
            if not self._has_room():
                runs.shares[name] = shares

    def _has_room(self) -> bool:
        cards = self._cluster.cards[self.name]
        return all(fits(charge, cards[card]) for card, charge in self.taken().items())

    def _behind(self, runs: _Runs, grant: Grant) -> bool:
        later = {(s.container, s.card): s.memory_bytes for s in grant.shares}
        return any(
            s.memory_bytes != later[name, s.card]
            for name, shares in runs.shares.items() for s in shares
        )  # fmt: skip

    def _admit(self, pod: Pod) -> None:
        """Ask the agent for the pod's containers, and report that."""
        if self.name == self._cluster.allocating and not pod.status.start_time:
            status = {"status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}}
            self._cluster.call("PATCH", f"{self._cluster.path(pod.metadata.uid)}/status", status)

    def _go_on(self, pod: Pod) -> None:
        self._admit(pod)
        runs = self._runs.setdefault(pod.metadata.uid, _Runs(pod))
        if all(self._is_past(pod, runs, init) for init in pod.spec.init_containers):
            for container in pod.spec.containers:
                if container.name not in runs.shares:
                    self._start(pod, runs, container)
            self._report(pod, runs)

    def _is_past(self, pod: Pod, runs: _Runs, init: Container) -> bool:
        """Whether the next container may start: a sidecar runs, any other one has run since the
        last look."""
        sidecar = init.restart_policy == "Always"
        if init.name in runs.done:
            return True
        if init.name not in runs.shares:
            return self._start(pod, runs, init) and sidecar
        if not sidecar:
            runs.done.add(init.name)
            del runs.shares[init.name]
        return True

    def _report(self, pod: Pod, runs: _Runs) -> None:
        inits: list[dict[str, Any]] = [
            {
                "name": name, "image": "i", "imageID": "i", "ready": False, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0}},
            }
            for name in sorted(runs.done)
        ]  # fmt: skip
        said = {s.name for s in pod.status.init_container_statuses}
        if pod.status.phase != "Running" or said != runs.done:
            status = {"status": {"phase": "Running", "initContainerStatuses": inits}}
            self._cluster.call("PATCH", f"{self._cluster.path(pod.metadata.uid)}/status", status)

    def _start(self, pod: Pod, runs: _Runs, container: Container) -> bool:
        text = pod.metadata.annotations.get(GRANT_KEY, "")
        uid, name = pod.metadata.uid, container.name
        self._cluster.truth.problem(text)  # brings the keys up to date
        scene = NodeContext(
            node=self.name, vendor=REGISTRY.vendors[VENDOR], vendors=REGISTRY.vendors,
            verifier=self._cluster.truth.verifier,
            cards={card.id: card for card in self._cluster.cards_of(self.name)},
            held=self._shares(), earlier=runs.grant,
        )  # fmt: skip
        verdict = admit_container(
            ContainerCreation(uid=uid, container=name, texts=(text,) if text else ()), scene
        )
        if isinstance(verdict, Refused):
            if verdict.why is RefusalReason.NO_ROOM:
                assert verdict.why.needs_alert
                for share in self._wanted(uid):
                    self.refused.setdefault(share.card, set()).add(uid)
            return False
        runs.shares[name] = ()
        if isinstance(verdict, Granted):
            runs.shares[name], runs.grant = verdict.shares, verdict.grant
        return True

    def _wanted(self, uid: str) -> tuple[Share, ...]:
        bound = self._cluster.truth.bound.get(uid)
        return bound.grant.shares if bound is not None else ()

    def _shares(self) -> dict[str, list[Share]]:
        return {
            uid: [s for shares in runs.shares.values() for s in shares]
            for uid, runs in self._runs.items()
        }

    # -- what is so

    def taken(self) -> dict[str, Charge]:
        """Card -> the sum of what its running containers may use."""
        total: dict[str, Charge] = {}
        for shares in self._shares().values():
            for share in shares:
                total[share.card] = total.get(share.card, Charge()).plus(charge_of(share))
        return total

    def taken_by_orphans(self) -> dict[str, Charge]:
        """The same of pods that are gone."""
        total: dict[str, Charge] = {}
        for uid in self.orphans():
            for share in self._left(uid).shares:
                total[share.card] = total.get(share.card, Charge()).plus(charge_of(share))
        return total

    def check(self) -> None:
        """Whatever was written anywhere, no card runs more than it has."""
        users: dict[str, set[str]] = {}
        for uid, shares in self._shares().items():
            for share in shares:
                users.setdefault(share.card, set()).add(uid)
        for card, charge in self.taken().items():
            assert fits(charge, self._cluster.cards[self.name][card]), (
                f"containers on {self.name} use {charge} of {card}"
            )
            assert not charge.exclusive or len(users[card]) == 1, f"{card} was given alone, twice"
