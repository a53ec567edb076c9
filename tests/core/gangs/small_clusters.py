"""Small clusters and gangs, and every way to place one: the answer that a search is held to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

from hypothesis import strategies as st
from msgspec import Struct

from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.quotas import Limit
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card, a_container, a_node, a_pod

CARD_MIB, SLOTS = 16, 4


class Demand(Struct, frozen=True):
    """What one member asks for; without cards only CPUs."""

    cards: int = 1
    mib: int = 4
    cores: int = 20
    cpu: int = 1
    namespace: str = "default"


class SmallCluster(Struct, frozen=True):
    """A node's CPUs, and MiB and cores in use of each of its cards."""

    nodes: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    limit: int | None = None
    """Cards that the namespace may use."""


DEMANDS = st.builds(
    Demand,
    cards=st.sampled_from([0, 1, 1, 1, 2]),
    mib=st.sampled_from([3, 4, 5, 8, 16]),
    cores=st.sampled_from([0, 20, 50, 100]),
    cpu=st.integers(1, 3),
)
CLUSTERS = st.builds(
    SmallCluster,
    nodes=st.lists(
        st.tuples(
            st.integers(1, 6),
            st.lists(
                st.tuples(st.sampled_from([0, 0, 6, 12]), st.sampled_from([0, 0, 50])), max_size=2
            ).map(tuple),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    limit=st.sampled_from([None, None, None, 2]),
)


def ledger_of(cluster: SmallCluster) -> tuple[Ledger, KubeSchedulerFilters]:
    """The cluster as the ledger and kube-scheduler have it."""
    ledger, nodes = Ledger(), []
    for n, (cpus, cards) in enumerate(cluster.nodes):
        ledger.put_node(
            f"n{n}", [a_card(f"c{n}-{i}", i, mib=CARD_MIB, slots=SLOTS) for i in range(len(cards))]
        )
        nodes.append(a_node(f"n{n}", capacity={"cpu": cpus}))
        for i, (mib, cores) in enumerate(cards):
            if mib or cores:
                ledger.assume([_holder(f"n{n}", f"c{n}-{i}", i, mib, cores)], 0)
    if cluster.limit is not None:
        ledger.set_limits([Limit(namespace="default", source="quota", cards=cluster.limit)])
    return ledger, KubeSchedulerFilters(nodes)


def members_of(demands: Sequence[Demand]) -> list[MemberRequest]:
    """The gang."""
    return [member(f"m{n}", demand) for n, demand in enumerate(demands)]


def member(name: str, demand: Demand) -> MemberRequest:
    """One member."""
    pod = a_pod(a_container({"cpu": demand.cpu}), name=name, namespace=demand.namespace)
    if not demand.cards:
        return MemberRequest(pod)
    request = Request(
        vendor="acme", dialect="acme", count=demand.cards, memory_bytes=demand.mib * MIB,
        cores_percent=demand.cores,
    )  # fmt: skip
    container = ContainerRequest(container="c0", position=0, role=Role.APP, requests=(request,))
    return MemberRequest(
        pod,
        PodRequest(
            namespace=demand.namespace, name=name, uid=pod.metadata.uid, containers=(container,)
        ),
    )


def can_be_placed(cluster: SmallCluster, demands: Sequence[Demand]) -> bool:
    """Whether some arrangement takes all of them in some order: all are tried, with arithmetic of
    its own."""
    cards = {
        (n, i): [CARD_MIB - mib, 100 - cores, SLOTS - int(bool(mib or cores))]
        for n, (_, of_node) in enumerate(cluster.nodes)
        for i, (mib, cores) in enumerate(of_node)
    }
    cpus = [cpu for cpu, _ in cluster.nodes]
    if cluster.limit is not None and sum(demand.cards for demand in demands) > cluster.limit:
        return False
    return any(_rest_fits(order, cpus, cards) for order in set(permutations(demands)))


def _rest_fits(
    demands: Sequence[Demand], cpus: list[int], cards: dict[tuple[int, int], list[int]]
) -> bool:
    return not demands or any(
        _fits_there(demands, node, cpus, cards)
        for node, free in enumerate(cpus)
        if free >= demands[0].cpu
    )


def _fits_there(
    demands: Sequence[Demand], node: int, cpus: list[int], cards: dict[tuple[int, int], list[int]]
) -> bool:
    """Whether all fit with the first of them on the node."""
    demand, fits = demands[0], False
    cpus[node] -= demand.cpu
    for chosen in combinations([place for place in cards if place[0] == node], demand.cards):
        if not fits and all(_takes(cards[place], demand) for place in chosen):
            for place in chosen:
                _use(cards[place], demand, 1)
            fits = _rest_fits(demands[1:], cpus, cards)
            for place in chosen:
                _use(cards[place], demand, -1)
    cpus[node] += demand.cpu
    return fits


def _takes(card: list[int], demand: Demand) -> bool:
    mib, cores, slots = card
    spent = not demand.cores and cores <= 0 and slots < SLOTS  # HAMi's rule: no share without cores
    return mib >= demand.mib and cores >= demand.cores and slots >= 1 and not spent


def _use(card: list[int], demand: Demand, sign: int) -> None:
    card[0] -= sign * demand.mib
    card[1] -= sign * demand.cores
    card[2] -= sign


def _holder(node: str, card: str, index: int, mib: int, cores: int) -> Grant:
    share = Share(
        container="c0", position=0, vendor="acme", dialect="acme", card=card, index=index,
        memory_bytes=mib * MIB, cores_percent=cores,
    )  # fmt: skip
    return Grant(uid=f"x-{card}", namespace="other", name="x", node=node, shares=(share,))
