"""What has reached a scheduler of agents' renewals, by plain counting.

An agent may be called silent only for what was observed: seconds count while the watch of the
Leases delivers, and a gap counts as ten of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_runtime.kube.heartbeat import agent_of_lease
from tessera_schema.annotation_keys import CARDS_PREFIX
from tests.machine.agents import HEARTBEAT, LEASES
from tests.machine.cluster import VENDOR

GAP_S: Final = 10.0
SETTLED_S: Final = 2.5
"""Within which a scheduler acts on what it received: it looks each second."""
LOOP: Final = 3
"""Starts of an agent that may be a loop."""
NODES: Final = "/api/v1/nodes"


class _Agent(Struct):
    seen: float
    """Observed seconds at the last renewal, or since when one is expected."""
    at: float
    """The loop's time then."""
    stamp: str = ""
    stamps: int = 0
    starts: int | None = None
    restarts: int = 0


class ObservedAgents:
    """Of one scheduler."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._agents: dict[str, _Agent] = {}
        self._early: dict[str, dict[str, Any]] = {}
        """Leases of nodes that were not read yet."""
        self._seconds = 0.0
        self._delivered: deque[tuple[float, float]] = deque(maxlen=50)
        """When the watch delivered, and the observed seconds then."""
        self._listed: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """Path and token of the next page -> what was listed so far: several readers may list the
        same at once."""

    # -- what arrives

    def page(self, path: str, answer: bytes, *, token: str) -> None:
        """A page of a list; `token` is that of the call, empty for the first page."""
        if path not in (LEASES, NODES):
            return
        body = msgspec.json.decode(answer)
        items = (self._listed.get((path, token), []) if token else []) + body["items"]
        following = body["metadata"].get("continue")
        if following:
            self._listed[path, following] = items
            return
        if path == LEASES:
            self._deliver()
            for item in items:
                self._renewed(item)
        else:
            for name in self._agents.keys() - {item["metadata"]["name"] for item in items}:
                del self._agents[name]
            for item in items:
                self._expected(item)

    def event(self, path: str, frame: bytes) -> None:
        """A line of a watch."""
        if path not in (LEASES, NODES):
            return
        event = msgspec.json.decode(frame)
        kind, item = event["type"], event["object"]
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return
        if path == LEASES:
            self._deliver()
            if kind != "DELETED":
                self._renewed(item)
        elif kind == "DELETED":
            self._agents.pop(item["metadata"]["name"], None)
        else:
            self._expected(item)

    def _deliver(self) -> None:
        now = self._now()
        if self._delivered:
            self._seconds += min(now - self._delivered[-1][0], GAP_S)
        self._delivered.append((now, self._seconds))

    def _expected(self, node: dict[str, Any]) -> None:
        text = node["metadata"].get("annotations", {}).get(f"{CARDS_PREFIX}{VENDOR}", "{}")
        if "heartbeat_s" in msgspec.json.decode(text):
            name = node["metadata"]["name"]
            if name not in self._agents:
                self._agents[name] = _Agent(self._seconds, self._now())
                if early := self._early.pop(name, None):
                    self._renewed(early)

    def _renewed(self, lease: dict[str, Any]) -> None:
        of = agent_of_lease(lease["metadata"]["name"])
        if of is None:
            return
        agent, spec = self._agents.get(of[1]), lease["spec"]
        if agent is None:
            self._early[of[1]] = lease
            return
        if agent.stamp == spec["renewTime"]:
            return
        starts = spec["leaseTransitions"]
        agent.restarts += abs(starts - agent.starts) if agent.starts is not None else 0
        agent.stamp, agent.starts, agent.stamps = spec["renewTime"], starts, agent.stamps + 1
        agent.seen, agent.at = self._seconds, self._now()

    # -- what follows

    def is_silent(self, node: str) -> bool:
        """Whether the scheduler must know by now that the agent does not renew its Lease."""
        settled = [s for at, s in self._delivered if at <= self._now() - SETTLED_S]
        agent = self._agents.get(node)
        return agent is not None and bool(settled) and settled[-1] - agent.seen > HEARTBEAT.lasts_s

    def is_live(self, node: str) -> bool:
        """Whether it must know that the agent renews its Lease, and does not start too often."""
        agent = self._agents.get(node)
        return (
            agent is not None
            and agent.stamps > 1
            and agent.restarts < LOOP
            and agent.at <= self._now() - SETTLED_S
            and self._seconds - agent.seen < HEARTBEAT.lasts_s
        )
