"""Which agents are silent: those whose Lease is not renewed while others' renewals are observed.

An agent says in its node's annotation for how long a renewal of its Lease counts
(`NodeCardsAnnotation.heartbeat_s`); one of a release that says nothing is never silent. Three rules
make this independent of clocks and of the API server's outages:

- A renewal is one that differs from the last one observed. What time it names does not matter, but
  for the first one: a scheduler that has just started compares it with its own clock, once, so that
  it does not place pods where an agent died before.
- Time passes only while the watch of the Leases delivers. It delivers every few seconds, as the
  scheduler's own Lease is among them; a longer gap counts as `MAX_STEP_S`. So nobody is silent
  because the API server was away.
- An agent that started `LOOP_STARTS` times within `LOOP_WINDOW_S` has to renew its Lease for
  `PROOF_S` before pods are placed on its cards: it renews at each start, and dies. Once it has
  renewed it for so long after a start, the starts before do not count any more: somebody stops and
  starts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.machines.liveness import (
    Event,
    Lapsed,
    LivenessPhase,
    Looped,
    Proved,
    Renewed,
    advance,
)

MAX_STEP_S: Final = 10.0
"""Seconds that pass between two deliveries of the watch, at most; the leader renews its own Lease
every few seconds."""
LOOP_STARTS: Final = 3
"""Starts of an agent within `LOOP_WINDOW_S` that make a loop: an upgrade is one, a mistake in its
settings that is mended at once two."""
LOOP_WINDOW_S: Final = 600.0
"""kubelet's back-off ends at five minutes, so a loop shows at least two starts in ten."""
PROOF_S: Final = 60.0
"""Seconds of renewals after which an agent that looped counts again."""

MAX_EARLY: Final = 20_000
"""Leases of agents whose node was not read yet that are remembered: Leases may be read before
nodes, and a Lease outlives its node until the garbage collector has deleted it."""

AgentName = tuple[str, str]
"""Node and vendor."""


class AgentRenewal(Struct, frozen=True, kw_only=True):
    """An agent's Lease as it was read."""

    node: str
    vendor: str
    stamp: str
    """The time that the agent wrote, as text: another one is another renewal."""
    renewed_at: float | None
    """The same in seconds since 1970, by the agent's clock; None where it is not a time."""
    starts: int
    """How often an agent of that name has started: `leaseTransitions`."""


class _Agent(Struct, gc=False):
    lasts_s: float
    phase: LivenessPhase
    renewed: float
    """Observed seconds at the last renewal."""
    began: float
    """Observed seconds at the last start, or since when it is known."""
    stamp: str = ""
    starts: int = -1
    """-1 = no Lease was read yet."""
    recent: tuple[float, ...] = ()
    """Observed seconds of the last starts."""


class AgentLiveness:
    """The agents that renew Leases. Pure: the caller says when something was observed."""

    def __init__(self) -> None:
        self._agents: dict[AgentName, _Agent] = {}
        self._of_node: dict[str, frozenset[str]] = {}
        """Node -> vendors whose agents renew a Lease."""
        self._early: dict[AgentName, AgentRenewal] = {}
        """Renewals of agents whose node was not read yet."""
        self._now = 0.0
        """Seconds during which the watch delivered."""
        self._delivered: float | None = None
        self._changed: set[str] = set()

    # -- what is observed

    def deliver(self, now: float) -> None:
        """The watch delivered something at `now`, seconds by any steady clock."""
        if self._delivered is not None:
            self._now += min(max(now - self._delivered, 0.0), MAX_STEP_S)
        self._delivered = now

    def expect(self, node: str, heartbeats: Mapping[str, float], wall: float) -> None:
        """The node's annotations say that these vendors' agents renew a Lease: vendor -> seconds
        for which a renewal counts. `wall` is seconds since 1970 by the scheduler's clock."""
        former = self._of_node.get(node, frozenset())
        for vendor in former - heartbeats.keys():
            self._drop((node, vendor))
        for vendor, lasts_s in heartbeats.items():
            agent = self._agents.get((node, vendor))
            if agent is not None:
                agent.lasts_s = lasts_s
                continue
            self._agents[node, vendor] = _Agent(
                lasts_s, LivenessPhase.EXPECTED, self._now, self._now
            )
            early = self._early.pop((node, vendor), None)
            if early is not None:
                self.renew(early, wall)
        self._of_node.pop(node, None)
        if heartbeats:
            self._of_node[node] = frozenset(heartbeats)

    def forget_node(self, node: str) -> None:
        """The node is gone."""
        for vendor in self._of_node.pop(node, frozenset()):
            self._drop((node, vendor))

    def renew(self, lease: AgentRenewal, wall: float) -> None:
        """A Lease was read, renewed or not. `wall` is as in `expect`."""
        name = (lease.node, lease.vendor)
        agent = self._agents.get(name)
        if agent is None:
            self._early[name] = lease
            if len(self._early) > MAX_EARLY:
                del self._early[next(iter(self._early))]
            return
        first, started = agent.starts < 0, lease.starts - agent.starts
        if not first and lease.stamp == agent.stamp and not started:
            return
        if agent.renewed - agent.began >= PROOF_S:
            agent.recent = ()
        agent.stamp, agent.starts, agent.renewed = lease.stamp, lease.starts, self._now
        if first:
            old = lease.renewed_at is None or wall - lease.renewed_at > agent.lasts_s
            self._advance(name, agent, Lapsed() if old else Renewed())
        elif started and self._loops(agent, started):
            self._advance(name, agent, Looped())
        else:
            self._advance(name, agent, Renewed())

    def gone(self, node: str, vendor: str) -> None:
        """The Lease was deleted: the agent makes it again with its next renewal, or is silent."""
        self._early.pop((node, vendor), None)

    def expire(self) -> frozenset[str]:
        """Find who became silent, or proved itself, since the last call; the nodes on which
        `silent` differs since then."""
        for name, agent in self._agents.items():
            if self._now - agent.renewed > agent.lasts_s:
                if agent.phase is not LivenessPhase.SILENT:
                    self._advance(name, agent, Lapsed())
            elif agent.phase is LivenessPhase.PROVING and self._now - agent.began >= PROOF_S:
                agent.recent = ()
                self._advance(name, agent, Proved())
        changed, self._changed = frozenset(self._changed), set()
        return changed

    # -- what follows

    def silent(self, node: str) -> frozenset[str]:
        """The vendors on whose cards no pod is placed there."""
        return frozenset(
            vendor
            for vendor in self._of_node.get(node, ())
            if _is_silent(self._agents[node, vendor].phase)
        )

    def count(self) -> int:
        """How many agents are silent."""
        return sum(_is_silent(agent.phase) for agent in self._agents.values())

    def describe(self, node: str, vendor: str) -> str:
        """Why no pod is placed on the vendor's cards there; empty where they are."""
        agent = self._agents.get((node, vendor))
        if agent is None or not _is_silent(agent.phase):
            return ""
        if agent.phase is LivenessPhase.PROVING:
            left = max(PROOF_S - (self._now - agent.began), 0.0)
            return (
                f"the {vendor} agent of {node} has started {LOOP_STARTS} times or more within "
                f"{LOOP_WINDOW_S:g} s: it must renew its Lease for another {left:.0f} s"
            )
        return (
            f"the {vendor} agent of {node} has not renewed its Lease for "
            f"{max(self._now - agent.renewed, agent.lasts_s):.0f} s: it is down, or cannot give "
            "containers their cards"
        )

    def _loops(self, agent: _Agent, started: int) -> bool:
        """Note that the agent started, perhaps more than once; whether it starts too often."""
        agent.began = self._now
        starts = (*agent.recent, *[self._now] * min(abs(started), LOOP_STARTS))
        agent.recent = tuple(at for at in starts if at >= self._now - LOOP_WINDOW_S)
        return len(agent.recent) >= LOOP_STARTS

    def _drop(self, name: AgentName) -> None:
        agent = self._agents.pop(name, None)
        if agent is not None and _is_silent(agent.phase):
            self._changed.add(name[0])

    def _advance(self, name: AgentName, agent: _Agent, event: Event) -> None:
        before, agent.phase = agent.phase, advance(agent.phase, event)
        if _is_silent(before) != _is_silent(agent.phase):
            self._changed.add(name[0])


def _is_silent(phase: LivenessPhase) -> bool:
    return phase in (LivenessPhase.SILENT, LivenessPhase.PROVING)
