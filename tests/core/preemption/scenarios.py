"""Small clusters where somebody needs room, and every way to make it: the answer that a search is
held to. The arithmetic is its own: nothing of the ledger or of placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.gangs.catalog import GangCatalog, read_gangs
from tessera_core.gangs.gang import Gang, GangOrigin
from tessera_core.gangs.queue_lending import QueueLending
from tessera_core.gangs.queue_turns import cluster_totals
from tessera_core.gangs.queue_usage import ClusterQueues, amounts_of
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueSpec
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.eviction_trials import Preemptor
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules
from tessera_core.preemption.preemption import PreemptionView
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_schema.annotation_keys import CHECKPOINT_KEY
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Pod
from tessera_schema.label_selectors import LabelTest
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.core.gangs.setting import GROUP_LABEL

NOW = 100_000.0
CARD_MIB, SLOTS = 16, 3
QUEUE_KEY = "scheduling.volcano.sh/queue-name"
Place = tuple[int, int]
"""Node and card."""


class Party(Struct, frozen=True):
    """A pod, running or not, by what matters here."""

    name: str
    cards: int = 1
    mib: int = 8
    cores: int = 20
    cpu: int = 1
    priority: int = 0
    age_s: int = 600
    checkpoint_s: int | None = None
    gang: str = ""
    app: str = ""
    controlled: bool = True
    grace_s: int = 30
    queue: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    places: tuple[Place, ...] = ()
    """The cards that it has a part of; empty while it waits."""

    @property
    def uid(self) -> str:
        return f"uid-default-{self.name}"


class Scenario(Struct, frozen=True):
    """A cluster, those that run and those that need room."""

    nodes: tuple[tuple[int, int], ...]
    """CPUs and cards of each."""
    running: tuple[Party, ...]
    needy: tuple[Party, ...]
    """One pod, or a gang that starts together."""
    minima: dict[str, int]
    """Gang -> its minimum."""
    budgets: tuple[tuple[str, int], ...] = ()
    """App, and how many of its pods may go."""
    queues: tuple[QueueSpec, ...] = ()
    """Volcano's; they give back what they borrow."""

    def priority(self, party: Party) -> int:
        """Of the pod, or of its gang."""
        of_gang = [each.priority for each in (*self.running, *self.needy)
                   if party.gang and each.gang == party.gang]  # fmt: skip
        return max(of_gang, default=party.priority)


# -- as Tessera has it


def pod_of(party: Party) -> Pod:
    node = f"n{party.places[0][0]}" if party.places else ""
    labels = {**dict(party.labels), **({"app": party.app} if party.app else {})}
    if party.gang:
        labels[GROUP_LABEL] = party.gang
    every = {} if party.checkpoint_s is None else {CHECKPOINT_KEY: str(party.checkpoint_s)}
    named = {QUEUE_KEY: party.queue} if party.queue else {}
    return a_pod(
        a_container({"cpu": party.cpu}), name=party.name, labels=labels,
        annotations={**every, **named},
        node=node, priority=party.priority,
    )  # fmt: skip


def member_of(party: Party) -> MemberRequest:
    request = Request(
        vendor="acme", dialect="acme", count=party.cards, memory_bytes=party.mib * MIB,
        cores_percent=party.cores,
    )  # fmt: skip
    container = ContainerRequest(container="c0", position=0, role=Role.APP, requests=(request,))
    pod = pod_of(replace(party, places=()))
    request_of_pod = PodRequest(
        namespace="default", name=party.name, uid=party.uid, containers=(container,)
    )
    return MemberRequest(pod, request_of_pod)


def view_of(scenario: Scenario, protect_s: float = 60) -> PreemptionView:
    ledger, nodes = Ledger(), []
    for n, (cpus, cards) in enumerate(scenario.nodes):
        of_node = [a_card(f"c{n}-{i}", i, mib=CARD_MIB, slots=SLOTS) for i in range(cards)]
        ledger.put_node(f"n{n}", of_node)
        nodes.append(a_node(f"n{n}", capacity={"cpu": cpus}))
    for party in scenario.running:
        assert ledger.assume([_grant(party)], 0) is None
    pods = [pod_of(party) for party in scenario.running]
    lending = lending_of(scenario, ledger)
    return PreemptionView(
        ledger=ledger,
        queues=None if lending is None else lending.queues,
        lending=lending,
        filters=KubeSchedulerFilters(nodes, pods),
        bound={
            pod.metadata.uid: PotentialVictim(
                pod=pod, since=NOW - party.age_s, grace_s=party.grace_s,
                owner_kind="ReplicaSet" if party.controlled else "",
            )
            for pod, party in zip(pods, scenario.running, strict=True)
        },
        catalog=catalog_of(scenario),
        budgets=tuple(
            Disruption(
                namespace="default", name=f"{app}-{n}", allowed=allowed,
                selector=(LabelTest("app", "In", (app,)),),
            )
            for n, (app, allowed) in enumerate(scenario.budgets)
        ),
        rules=PreemptionRules(protect_s=protect_s),
    )  # fmt: skip


def lending_of(scenario: Scenario, ledger: Ledger) -> QueueLending | None:
    if not scenario.queues:
        return None
    queues = ClusterQueues(scenario.queues)
    for party in scenario.running:
        entry = ledger.entry(party.uid)
        assert entry is not None
        queues.use(VOLCANO_QUEUE, party.queue, amounts_of(pod_of(party), entry.uses))
    return QueueLending(queues=queues, totals=cluster_totals(ledger.fleet, ()))


def catalog_of(scenario: Scenario) -> GangCatalog:
    gangs = [
        Gang(origin=GangOrigin.COSCHEDULING, namespace="default", name=name, min=least)
        for name, least in scenario.minima.items()
    ]
    return read_gangs(map(pod_of, (*scenario.running, *scenario.needy)), gangs)


def preemptor_of(scenario: Scenario) -> Preemptor:
    members = tuple(map(member_of, scenario.needy))
    first = scenario.needy[0]
    queue = (VOLCANO_QUEUE, first.queue) if first.queue else None
    return Preemptor(members=members, priority=scenario.priority(first), queue=queue)


def _grant(party: Party) -> Grant:
    shares = tuple(
        Share(
            container="c0", position=0, vendor="acme", dialect="acme", card=f"c{n}-{i}", index=i,
            memory_bytes=party.mib * MIB, cores_percent=party.cores,
        )
        for n, i in party.places
    )  # fmt: skip
    return Grant(
        uid=party.uid, namespace="default", name=party.name, node=f"n{party.places[0][0]}",
        shares=shares,
    )  # fmt: skip


# -- by arithmetic


class Room:
    """What is free of cards and CPUs."""

    def __init__(self, scenario: Scenario, gone: Collection[str] = ()) -> None:
        self.cards = {
            (n, i): [CARD_MIB, 100, SLOTS]
            for n, (_, cards) in enumerate(scenario.nodes)
            for i in range(cards)
        }
        self.cpus = [cpus for cpus, _ in scenario.nodes]
        for party in scenario.running:
            if party.name not in gone:
                self.take(party, party.places)

    def take(self, party: Party, places: Sequence[Place], sign: int = 1) -> None:
        for place in places:
            card = self.cards[place]
            card[0] -= sign * party.mib
            card[1] -= sign * party.cores
            card[2] -= sign
        self.cpus[places[0][0]] -= sign * party.cpu

    def seats(self, party: Party) -> Iterator[tuple[Place, ...]]:
        """Every way to place the pod."""
        for node, cpus in enumerate(self.cpus):
            if cpus >= party.cpu:
                free = [
                    place
                    for place, (mib, cores, slots) in self.cards.items()
                    if place[0] == node and slots and mib >= party.mib and cores >= party.cores
                ]
                yield from combinations(free, party.cards)

    def fits(self, parties: Sequence[Party]) -> bool:
        """Whether some arrangement takes all of them."""
        if not parties:
            return True
        for places in self.seats(parties[0]):
            self.take(parties[0], places)
            fits = self.fits(parties[1:])
            self.take(parties[0], places, -1)
            if fits:
                return True
        return False


def fits_without(scenario: Scenario, gone: Collection[str]) -> bool:
    return Room(scenario, gone).fits(scenario.needy)


Cost = tuple[int, int, int, float]


def cost_of(scenario: Scenario, gone: Sequence[Party]) -> Cost:
    """Victims that end slowly, the highest priority, gangs that stop, card-seconds lost."""
    had, left = _members(scenario, ()), _members(scenario, gone)
    least = scenario.minima
    stopped = [gang for gang in had if left[gang] < least[gang] <= had[gang]]
    return (
        sum(party.grace_s > 300 for party in gone),
        max((scenario.priority(party) for party in gone), default=-(2**31)),
        len(stopped),
        sum(_card_s(party) for party in gone),
    )


def _members(scenario: Scenario, gone: Collection[Party]) -> Counter[str]:
    """Gang -> its members that run without these."""
    stay = (party for party in scenario.running if party not in gone)
    return Counter(party.gang for party in stay if party.gang)


def _card_s(party: Party) -> float:
    part = max(party.mib / CARD_MIB, party.cores / 100)
    work_s: float = party.age_s
    if party.checkpoint_s is not None:
        work_s = min(work_s, party.checkpoint_s / 2)
    return party.cards * part * (60 + work_s)


def broken_rule(scenario: Scenario, gone: Sequence[Party]) -> str:
    """Which rule it breaks to evict these; empty for none."""
    priority = scenario.priority(scenario.needy[0])
    had, left = _members(scenario, ()), _members(scenario, gone)
    for party in gone:
        guards = [n for n, (app, _) in enumerate(scenario.budgets) if app == party.app]
        if scenario.priority(party) >= priority:
            return f"{party.name} is not of lower priority"
        if not party.controlled or party.age_s < 60:
            return f"{party.name} is protected"
        if len(guards) > 1:
            return f"{party.name} has two budgets"
        if party.gang and 0 < left[party.gang] < scenario.minima[party.gang] <= had[party.gang]:
            return f"{party.gang} is left below its minimum"
    for app, allowed in scenario.budgets:
        if sum(party.app == app for party in gone) > allowed:
            return f"the budget of {app} is exceeded"
    return ""


def best_cost(scenario: Scenario) -> Cost | None:
    """The least cost of all sets that may go and make room; None where there is none."""
    sets = chain.from_iterable(
        combinations(scenario.running, n) for n in range(1, len(scenario.running) + 1)
    )
    allowed = (gone for gone in sets if not broken_rule(scenario, gone))
    costs = sorted((cost_of(scenario, gone), [each.name for each in gone]) for gone in allowed)
    return next((cost for cost, gone in costs if fits_without(scenario, gone)), None)


# -- at random


def a_scenario(seed: int) -> Scenario:
    """A cluster with up to six pods on it, and a pod or a gang that needs room."""
    random = Random(seed)  # noqa: S311  (clusters, not keys)
    nodes = tuple((random.randint(2, 6), random.randint(1, 2)) for _ in range(random.randint(1, 3)))
    gang = random.random() < 0.4
    minima = {"g": random.randint(2, 3), "needy": 2}
    empty = Scenario(nodes, (), (), minima)
    room, running = Room(empty), list[Party]()
    for n in range(random.randint(2, 6)):
        party = _a_party(random, f"p{n}", gang="g" if gang and random.random() < 0.6 else "")
        places = list(room.seats(party))
        if places:
            party = replace(party, places=random.choice(places))
            room.take(party, party.places)
            running.append(party)
    members = random.choice([1, 1, 2, 3])
    needy = tuple(
        Party(
            name=f"new{n}", cards=random.choice([1, 1, 1, 2]), mib=random.choice([6, 8, 12, 16]),
            cores=random.choice([20, 50, 100]), cpu=random.randint(1, 2),
            priority=random.choice([1, 5, 10]), gang="needy" if members > 1 else "",
        )
        for n in range(members)
    )  # fmt: skip
    budgets = [(app, random.randint(0, 2)) for app in ("a", "b") if random.random() < 0.5]
    if random.random() < 0.1:
        budgets.append(("a", 3))
    return Scenario(nodes, tuple(running), needy, minima, tuple(budgets))


def _a_party(random: Random, name: str, gang: str) -> Party:
    return Party(
        name=name, cards=random.choice([1, 1, 1, 2]), mib=random.choice([4, 6, 8, 16]),
        cores=random.choice([20, 40, 100]), cpu=random.randint(1, 2),
        priority=random.choice([0, 0, 2, 4, 10]), age_s=random.choice([30, 90, 600, 3600, 50_000]),
        checkpoint_s=random.choice([None, None, 0, 600]), gang=gang,
        app=random.choice(["", "a", "b"]), controlled=random.random() < 0.9,
        grace_s=random.choice([30, 30, 30, 900]),
    )  # fmt: skip
