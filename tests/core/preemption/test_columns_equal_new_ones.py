"""Columns that follow a cluster are those that are made of it at once, whatever happened before."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from tessera_core.fleet.arrays import Ints
from tessera_core.gangs.catalog import queue_named
from tessera_core.ledger.change_log import MOST_CHANGES, ChangeLog
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.card_lines import CardLines
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules
from tessera_core.preemption.victim_columns import SinglePods, VictimColumns
from tessera_core.slices import Slices, at_once, for_each
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Pod
from tessera_testing.builders import a_card, a_container, a_pod
from tests.core.preemption.scenarios import NOW

NODES, CARDS, PODS = 3, 2, 12
QUOTA_KEY = "quota.scheduling.koordinator.sh/name"
RULES = PreemptionRules()
pods = st.integers(0, PODS - 1)
places = st.tuples(st.integers(0, NODES - 1), st.sets(st.integers(0, CARDS - 1), min_size=1))


def content(columns: VictimColumns, ledger: Ledger) -> tuple[object, ...]:
    """All that a search reads of columns."""
    lines, pods = columns.below(100, NOW), columns.singles(100, NOW)
    owners, singles = uids(columns, lines.owner), uids(columns, pods.number)
    group, like = columns.groups(pods)
    groups = [(like[n].metadata.namespace, queue_named(like[n])) for n in group.tolist()]
    rows = [*zip(owners, *numbers(lines), strict=True)]
    rows += [*zip(singles, *numbers(pods), groups, strict=True)]
    on = {node: {each.uid: each for each in columns.on(node)} for node in ledger.fleet.names}
    ending = Counter(pod.metadata.uid for pod in columns.ending)
    return sorted(rows), on, ending


def uids(columns: VictimColumns, numbers: Ints) -> list[str]:
    return [columns.victim(n).uid for n in numbers.tolist()]


def numbers(columns: CardLines | SinglePods) -> list[list[float]]:
    """All values, but by which number the columns know the pods."""
    names = set(columns.__struct_fields__) - {"owner", "number"}
    return [getattr(columns, name).tolist() for name in sorted(names)]


class ColumnsFollow(RuleBasedStateMachine):
    """A ledger and its pods, with logs of their changes."""

    def __init__(self) -> None:
        super().__init__()
        self.columns, self.ledger, self.log = VictimColumns(RULES), Ledger(), ChangeLog()
        self.bound: dict[str, PotentialVictim] = {}
        self.gangs: dict[str, str] = {}
        self.uids = [f"p{n}" for n in range(PODS)]
        self.start_over()
        for n in range(PODS // 2):
            self.starts(n, (n % NODES, {0}), 4, 600)

    # -- pods

    @rule(n=pods, place=places, mib=st.sampled_from([4, 8]), age=st.sampled_from([30, 600]))
    def starts(self, n: int, place: tuple[int, set[int]], mib: int, age: int) -> None:
        if self.ledger.has_ended(self.uids[n]):
            self.uids[n] += "'"
        grant = a_grant(self.uids[n], *place, mib)
        if self.ledger.assume([grant], 0) is None:
            pod = a_pod(a_container({"cpu": 1}), name=grant.uid, node=grant.node, priority=0)
            self.put(PotentialVictim(pod=with_uid(pod), since=NOW - age, owner_kind="ReplicaSet"))

    @rule(n=pods)
    def reservation_lapses(self, n: int) -> None:
        entry = self.ledger.entry(self.uids[n])
        if entry is not None and entry.phase == "reserved":
            self.ledger.forget(self.uids[n])

    @rule(n=pods, first=st.booleans())
    def ends(self, n: int, *, first: bool) -> None:
        """In the ledger too, or not yet."""
        if first:
            self.ledger.ended(self.uids[n])
        if self.bound.pop(self.uids[n], None) is not None:
            self.log.add(self.uids[n])

    @rule(n=pods, place=places)
    def is_observed(self, n: int, place: tuple[int, set[int]]) -> None:
        """Late events of pods that have ended are among them."""
        observed = ObservedPod(uid=self.uids[n], grant=a_grant(self.uids[n], *place, 4))
        self.ledger.observe(observed, 0)

    @rule(n=pods, mib=st.sampled_from([2, 6]), done=st.booleans())
    def is_resized(self, n: int, mib: int, *, done: bool) -> None:
        entry = self.ledger.entry(self.uids[n])
        if entry is not None:
            shares = tuple(replace(s, memory_bytes=mib * MIB) for s in entry.grant.shares)
            revision = entry.grant.revision + 1
            self.ledger.resize(replace(entry.grant, shares=shares, revision=revision))
            self.ledger.resized(self.uids[n], done=done)

    @rule(n=pods, priority=st.integers(-1, 3), label=st.sampled_from(["true", "false"]))
    def is_another_pod(self, n: int, priority: int, label: str) -> None:
        if victim := self.bound.get(self.uids[n]):
            labels = {"volcano.sh/preemptable": label, QUOTA_KEY: label}
            meta = replace(victim.pod.metadata, labels=labels)
            spec = replace(victim.pod.spec, priority=priority)
            self.put(replace(victim, pod=replace(victim.pod, metadata=meta, spec=spec)))

    @rule(n=pods, leaving=st.booleans(), saved=st.sampled_from([None, NOW - 100]))
    def is_another_victim(self, n: int, *, leaving: bool, saved: float | None) -> None:
        if victim := self.bound.get(self.uids[n]):
            self.put(replace(victim, leaving=leaving, checkpointed_at=saved))

    @rule(n=pods, deleted=st.sampled_from([None, "2026-01-01T00:00:00Z"]))
    def is_finalizing(self, n: int, deleted: str | None) -> None:
        if victim := self.bound.get(self.uids[n]):
            meta = replace(victim.pod.metadata, deletion_timestamp=deleted)
            self.put(replace(victim, pod=replace(victim.pod, metadata=meta)))

    @rule(n=pods, joins=st.booleans())
    def joins_or_leaves_a_gang(self, n: int, *, joins: bool) -> None:
        self.gangs.pop(self.uids[n], None)
        if joins:
            self.gangs[self.uids[n]] = "gang"

    def put(self, victim: PotentialVictim) -> None:
        self.bound[victim.uid] = victim
        self.log.add(victim.uid)

    # -- nodes

    @rule(n=st.integers(0, NODES - 1), renamed=st.booleans(), turned=st.booleans())
    def node_has_other_cards(self, n: int, *, renamed: bool, turned: bool) -> None:
        cards = [a_card(f"{'x' * renamed}c{n}-{i}", i, mib=16, slots=3) for i in range(CARDS)]
        self.ledger.put_node(f"n{n}", cards[::-1] if turned else cards)

    @rule(n=st.integers(0, NODES - 1))
    def node_leaves(self, n: int) -> None:
        self.ledger.remove_node(f"n{n}")

    # -- all at once

    @rule(listed=st.sets(pods))
    def list_replaces_the_ledger(self, listed: set[int]) -> None:
        uids = {self.uids[n] for n in listed}
        observed = [
            ObservedPod(uid=uid, grant=a_grant(uid, n % NODES, {0}, 4))
            for n, uid in enumerate(sorted(uids))
        ]  # fmt: skip
        taking: Slices[None] = for_each(observed, lambda each: self.ledger.observe(each, 1))
        at_once(self.ledger.relist(uids, 1, taking))
        for uid in self.bound.keys() - uids:
            del self.bound[uid]
            self.log.add(uid)

    @rule()
    def start_over(self) -> None:
        """Another ledger, made from the pods, and another log of pods."""
        grants = [entry.grant for entry in self.ledger.entries()]
        self.ledger, self.log, self.bound = Ledger(), ChangeLog(), dict(self.bound)
        for n in range(NODES):
            cards = [a_card(f"c{n}-{i}", i, mib=16, slots=3) for i in range(CARDS)]
            self.ledger.put_node(f"n{n}", cards)
        for grant in grants[1:]:
            self.ledger.observe(ObservedPod(uid=grant.uid, grant=grant), 0)

    @rule()
    def log_overflows(self) -> None:
        for _ in range(MOST_CHANGES):
            self.log.add("nobody")

    # -- answers

    @rule(slices=st.integers(0, 6), logged=st.booleans())
    def answer_is_given_up(self, slices: int, *, logged: bool) -> None:
        work = self.follow(self.columns, dict(self.bound), self.ledger.snapshot(), logged=logged)
        for _ in range(slices):
            if next(work, "over") == "over":
                break
        work.close()

    @rule(n=pods, logged=st.booleans())
    def pod_ends_during_an_answer(self, n: int, *, logged: bool) -> None:
        bound, ledger = dict(self.bound), self.ledger.snapshot()
        work = self.follow(self.columns, bound, ledger, logged=logged)
        next(work)
        self.ends(n, first=True)
        at_once(work)

    @invariant()
    def columns_equal_new_ones(self) -> None:
        fresh, ledger = VictimColumns(RULES), self.ledger.snapshot()
        at_once(fresh.follow(self.bound, ledger, self.gangs))
        at_once(self.follow(self.columns, dict(self.bound), ledger, logged=True))
        assert content(self.columns, ledger) == content(fresh, ledger)

    def follow(
        self,
        columns: VictimColumns,
        bound: dict[str, PotentialVictim],
        ledger: Ledger,
        *,
        logged: bool,
    ) -> Slices[None]:
        at = self.log.here() if logged else None
        return columns.follow(bound, ledger, dict(self.gangs), bound_at=at)


TestColumnsFollow = ColumnsFollow.TestCase
TestColumnsFollow.settings = settings(deadline=None, stateful_step_count=40, max_examples=30)


def a_grant(uid: str, node: int, cards: set[int], mib: int) -> Grant:
    """Of a part of each of the cards."""
    shares = tuple(
        Share(
            container="c0", position=0, vendor="acme", dialect="acme", card=f"c{node}-{i}",
            index=i, memory_bytes=mib * MIB, cores_percent=20,
        )
        for i in sorted(cards)
    )  # fmt: skip
    return Grant(uid=uid, namespace="default", name=uid, node=f"n{node}", shares=shares)


def with_uid(pod: Pod) -> Pod:
    """The pod, whose uid is its name."""
    return replace(pod, metadata=replace(pod.metadata, uid=pod.metadata.name))
