"""Which containers of the node hold shares of one vendor's cards, as the runtime reports it.

Kept in memory. `nri_plugin` rebuilds it from the runtime's list whenever a connection begins.
What a container holds begins when its creation is answered, and ends when its process does: a
container that is created, and never runs, holds its shares until its pod's sandbox ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.fleet.charges import Charge, charge_of
from tessera_core.hook.limits_file import HookLimits
from tessera_kubelet.nri.types import PodSandbox
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import CardHeld


class ContainerStage(StrEnum):
    """How far a container is; the runtime's events move it on, or its status in the API server."""

    ALLOCATED = "allocated"
    """Kubelet has the answer for it; holds nothing until it may start."""
    CREATED = "created"
    RUNNING = "running"
    ENDED = "ended"
    """Holds nothing; its files stay, for it may be started again under another id."""


class Holding(Struct, frozen=True, kw_only=True):
    """A container with its shares."""

    key: ContainerKey
    id: str
    """As the runtime knows it; another one after each restart."""
    pod: PodSandbox
    """As it was when the container was created."""
    shares: tuple[Share, ...]
    """What it takes of the cards: more than it was granted while its memory is being lowered."""
    granted: tuple[Share, ...] = ()
    """As the pod's last grant has them; none = `shares` are."""
    lowered: frozenset[str] = frozenset()
    """Cards of which its limit of cores was below what was granted when it was found running."""
    limits: HookLimits
    """As first given; those in force are the files'."""
    since: float
    """Loop time of its first report; -inf = it ran before this agent."""
    terms: LendingTerms = LendingTerms(most_percent=0)
    """The terms on which it is lent to, lends, and holds others."""
    hooked: bool = True
    """False where the vendor's own tools limit it."""
    files: ContainerFiles | None = None
    """None where it has none: not hooked, or started without the agent."""
    stage: ContainerStage = ContainerStage.CREATED
    pid: int = 0
    log_level: int = 0
    """Of its hook, as the container itself says; 0 = the node's settings say."""

    @property
    def holds(self) -> bool:
        """Whether its shares are taken."""
        return self.stage in (ContainerStage.CREATED, ContainerStage.RUNNING)


class ContainerRegistry:
    """All holdings of the node, by pod and container."""

    def __init__(self) -> None:
        self._known: dict[ContainerKey, Holding] = {}
        self._granted: dict[str, Grant] = {}
        self._retired: dict[ContainerKey, float] = {}
        self.changes = 0
        """Times that a holding came, changed or went."""
        self.synchronized = 0
        """Times that all containers of the node became known."""

    def __iter__(self) -> Iterator[Holding]:
        """A copy: what happens meanwhile does not matter."""
        return iter(tuple(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: ContainerKey) -> Holding | None:
        """The holding of the container, whatever its stage."""
        return self._known.get(key)

    def put(self, holding: Holding) -> None:
        """Add a container; it replaces an earlier one of that name."""
        self.changes += 1
        self._known[holding.key] = holding
        self._retired.pop(holding.key, None)

    def change(self, key: ContainerKey, id_: str, **fields: object) -> Holding | None:
        """Change fields of a container and return it; None where it is not known, or by another
        id."""
        known = self._known.get(key)
        if known is None or known.id != id_:
            return None
        self.changes += 1
        changed = self._known[key] = replace(known, **fields)
        return changed

    def forget(self, key: ContainerKey, now: float) -> None:
        """Forget a container that is gone for good; its files are removed later."""
        if self._known.pop(key, None) is not None:
            self.changes += 1
            self._retired[key] = now

    def of_pod(self, uid: str) -> tuple[Holding, ...]:
        """The pod's containers."""
        return tuple(h for h in self._known.values() if h.key.uid == uid)

    def shares_by_pod(self, but: ContainerKey | None = None) -> dict[str, list[Share]]:
        """Pod's uid -> the shares that its containers hold, except those of the container `but`."""
        found: dict[str, list[Share]] = {}
        for holding in self._known.values():
            if holding.holds and holding.key != but:
                found.setdefault(holding.key.uid, []).extend(holding.shares)
        return found

    def charges(self) -> dict[str, Charge]:
        """Card -> what all containers together hold of it."""
        sums: dict[str, Charge] = {}
        for held in self._known.values():
            for share in held.shares if held.holds else ():
                sums[share.card] = sums.get(share.card, Charge()).plus(charge_of(share))
        return sums

    def by_card(self) -> tuple[CardHeld, ...]:
        """The same, for the message bus."""
        return tuple(
            CardHeld(
                card=card, containers=charge.slots, memory_bytes=charge.memory_bytes,
                cores_percent=charge.cores_percent,
            )
            for card, charge in sorted(self.charges().items())
        )  # fmt: skip

    def namespaces_by_card(self) -> Mapping[str, set[str]]:
        """Card -> the namespaces of the containers that hold a part of it."""
        found: dict[str, set[str]] = {}
        for held in self._known.values():
            for share in held.shares if held.holds else ():
                found.setdefault(share.card, set()).add(held.pod.namespace)
        return found

    def roots(self) -> Mapping[int, str]:
        """First process -> container's id, of those that run. Called from threads."""
        return {
            h.pid: h.id
            for h in (*self._known.values(),)
            if h.pid and h.stage is ContainerStage.RUNNING
        }

    # -- what pods were granted

    def granted(self, uid: str) -> Grant | None:
        """The grant of which one of the pod's containers was given a part."""
        return self._granted.get(uid)

    def remember(self, grant: Grant) -> None:
        """Remember the grant for as long as the pod is on the node."""
        self._granted[grant.uid] = grant

    def lose(self, uid: str) -> None:
        """Forget the grant of a pod that is gone."""
        self._granted.pop(uid, None)

    def pods(self) -> frozenset[str]:
        """Uids of the pods that have a grant or a container here."""
        return frozenset(self._granted) | {key.uid for key in self._known}

    # -- files of those that are gone

    def retired(self, before: float) -> tuple[ContainerKey, ...]:
        """Containers that were forgotten before a time, each returned once."""
        due = tuple(key for key, at in self._retired.items() if at <= before)
        for key in due:
            del self._retired[key]
        return due

    def is_retired(self, key: ContainerKey) -> bool:
        """Whether it was forgotten and its files stay for a while."""
        return key in self._retired
