"""The first gang in line for each card model, in each tree of queues, has cards reserved."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.gang_scheduling.line_shadows import MOST_VAIN, STARVE_S
from tessera_core.gangs.queues import KOORDINATOR_QUOTA
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod
from tessera_testing.builders import a_container, a_pod
from tests.core.gang_scheduling.coming_pods import ComingPods, created, said, tried
from tests.core.gang_scheduling.gang_cluster import HOSTNAME, GangCluster
from tests.core.gangs.setting import a_group, a_koord_member, a_member, a_queue

USE = "nvidia.com/use-gputype"


def single(name: str, model: str, seconds: float | None = None, cards: int = 1) -> Pod:
    """A pod of no gang that takes one model."""
    return a_pod(
        a_container({"nvidia.com/gpu": cards}), name=name, uid=name,
        annotations={**said(seconds), USE: model},
    )  # fmt: skip


def gang_of(
    name: str, count: int, models: str, seconds: float | None = None, **more: Any
) -> list[Pod]:
    """A gang whose pods take one card each of these models; empty for all."""
    notes = {**said(seconds), **({USE: models} if models else {})}
    names = [f"{name}{n}" for n in range(count)]
    return [a_member(each, name, annotations=notes, uid=each, **more) for each in names]


def shadows(cluster: GangCluster) -> dict[str, dict[str, int]]:
    """Who has a shadow -> cards of each node."""
    return {
        each.known.bundle.name.removeprefix("default/"): {
            node: len(ids) for node, ids in sorted(each.shadow.cards.items())
        }
        for each in cluster.reserved.all()
    }


def starts(cluster: GangCluster) -> dict[str, float]:
    return {gang.rpartition("/")[2]: at for gang, at in cluster.reserved.expected_starts().items()}


def why(cluster: GangCluster, gang: str, least: int) -> str:
    return cluster.why(a_group(gang, minMember=least))


def two_models(*gangs: str, queues: Any = (), **cards: int) -> GangCluster:
    """Four A100 and four H100, of each of which pods have two: of the A100 for 600 s, of the H100
    for 900 s. `gangs` need four members."""
    groups = [a_group(gang, minMember=4) for gang in gangs]
    nodes = {"a": 4, "h": 4, **cards}
    models = {node: "A100" if node.startswith("a") else "H100" for node in nodes}
    cluster = GangCluster(nodes, groups, queues, models=models)
    created(cluster, single("ra", "A100", 600, 2), single("rh", "H100", 900, 2))
    assert tried(cluster, "ra", "rh") == {"ra", "rh"}
    return cluster


def test_the_first_gang_for_each_model_has_one() -> None:
    cluster = two_models("a1", "a2", "h1", "h2")
    for gang, model in (("a1", "A100"), ("a2", "A100"), ("h1", "H100"), ("h2", "H100")):
        created(cluster, *gang_of(gang, 4, model))
    assert shadows(cluster) == {"a1": {"a": 4}, "h1": {"h": 4}}
    assert starts(cluster) == {"a1": 1600, "h1": 1900}
    assert why(cluster, "h1", 4).endswith(
        "4 cards are reserved for it, it is expected to start at 1900"
    )
    assert why(cluster, "h2", 4).endswith(
        "none is placed; cards are reserved for gang default/h1 until 1900"
    )


def test_small_pods_do_not_keep_the_second_one_in_line_waiting() -> None:
    """It is the first for its model: what comes free stays for it."""
    cluster = two_models("a1", "h1")
    created(cluster, *gang_of("a1", 4, "A100"))
    created(cluster, *gang_of("h1", 4, "H100"))
    created(cluster, single("s", "H100"), single("short", "H100", 700))
    assert tried(cluster, "s", "short") == {"short"}


def test_nobody_keeps_back_what_takes_another_model() -> None:
    cluster = two_models("a1", "h1")
    cluster.put_group(a_group("small", minMember=2))
    created(cluster, *gang_of("a1", 4, "A100"))
    assert shadows(cluster) == {"a1": {"a": 4}}
    created(cluster, *gang_of("small", 2, "H100"))
    assert tried(cluster, "small0", "small1") == {"small0", "small1"}
    created(cluster, *gang_of("h1", 4, "H100"))
    assert "reserved for gang default/a1" not in why(cluster, "h1", 4)


def test_a_gang_that_takes_several_models_claims_those_of_its_shadow() -> None:
    """The A100 come first: the H100 are left to the next gang that takes them, and there is nothing
    for a third one that takes either."""
    cluster = two_models("any", h=2)
    for gang in ("h1", "late"):
        cluster.put_group(a_group(gang, minMember=2))
    created(cluster, *gang_of("any", 4, "A100,H100"))
    created(cluster, *gang_of("h1", 2, "H100"))
    created(cluster, *gang_of("late", 2, ""))
    assert shadows(cluster) == {"any": {"a": 4}, "h1": {"h": 2}}
    assert starts(cluster) == {"any": 1600, "h1": 1900}
    assert why(cluster, "late", 2).endswith(
        "; cards are reserved for gang default/any until 1600, and others for 1 more"
    )


def test_a_gang_that_what_is_left_does_not_help_claims_nothing() -> None:
    cluster = two_models("a1", "any", h=2)
    cluster.put_group(a_group("h1", minMember=2))
    created(cluster, *gang_of("a1", 4, "A100"))
    created(cluster, *gang_of("any", 4, ""))
    created(cluster, *gang_of("h1", 2, "H100"))
    assert shadows(cluster) == {"a1": {"a": 4}, "h1": {"h": 2}}


def test_a_gang_whose_shadow_has_cards_of_two_models_claims_both() -> None:
    cluster = two_models("h1")
    cluster.put_group(a_group("any", minMember=6))
    created(cluster, *gang_of("any", 6, ""))
    created(cluster, *gang_of("h1", 4, "H100"))
    assert shadows(cluster) == {"any": {"a": 4, "h": 2}}
    assert why(cluster, "h1", 4).endswith("cards are reserved for gang default/any until 1600")


def test_a_gang_uses_the_cards_of_those_that_come_behind_it() -> None:
    """Where it fits earlier than expected, it starts; the one behind waits for longer."""
    cluster = two_models(a=6, h=2)
    for gang, least in (("any", 5), ("h1", 2)):
        cluster.put_group(a_group(gang, minMember=least))
    created(cluster, *gang_of("any", 5, "A100,H100", 1000))
    created(cluster, *gang_of("h1", 2, "H100"))
    assert shadows(cluster) == {"any": {"a": 5}, "h1": {"h": 2}}
    cluster.now += 20
    cluster.delete("rh")
    cluster.watch()
    cluster.step()
    names = [f"any{n}" for n in range(5)]
    assert tried(cluster, *names) == set(names)
    cluster.now += 60
    cluster.step()
    assert starts(cluster) == {"h1": 2020}


def test_nodes_that_pods_select_count_as_a_model_does() -> None:
    """A gang that waits for a service on other nodes of its model keeps nobody from a shadow."""
    cluster = GangCluster({"n1": 2, "n2": 2}, [a_group(g, minMember=2) for g in ("one", "two")])
    for node, seconds in (("n1", 600), ("n2", 900)):
        pod = single(f"r-{node}", "", seconds)
        created(cluster, on(pod, node))
        assert tried(cluster, f"r-{node}") == {f"r-{node}"}
    created(cluster, *(on(pod, "n1") for pod in gang_of("one", 2, "")))
    created(cluster, *(on(pod, "n2") for pod in gang_of("two", 2, "")))
    assert shadows(cluster) == {"one": {"n1": 2}, "two": {"n2": 2}}


def on(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_selector={HOSTNAME: node}))


def test_each_tree_of_queues_has_one() -> None:
    """Of other cards; the one whose turn is first gets those that come first."""
    queues = [a_queue("q"), a_queue("k", KOORDINATOR_QUOTA)]
    cluster = GangCluster({"n1": 3, "n2": 3}, [a_group("v", minMember=2, queue="q")], queues)
    created(cluster, single("r1", "", 600, 3), single("r2", "", 900, 3))
    assert len(tried(cluster, "r1", "r2")) == 2
    created(cluster, *gang_of("v", 2, ""))
    label = "quota.scheduling.koordinator.sh/name"
    created(
        cluster,
        *(
            replace(pod, metadata=replace(pod.metadata, labels={label: "k"}))
            for pod in (a_koord_member(f"k{n}", "k", min_available="2") for n in range(2))
        ),
    )
    found = shadows(cluster)
    assert set(found) == {"v", "k"}
    assert sum(map(sum, (cards.values() for cards in found.values()))) == 4


def test_not_all_gangs_of_a_long_line_are_searched_for() -> None:
    """Those that no end helps hide the ones behind them, of their model alone."""
    names = [f"a{n}-" for n in range(MOST_VAIN + 1)]
    cluster = two_models("good", "h1")
    for name in names:
        cluster.put_group(a_group(name, minMember=5))
    for name in names:
        created(cluster, *gang_of(name, 5, "A100"))
    created(cluster, *gang_of("good", 4, "A100"))
    created(cluster, *gang_of("h1", 4, "H100"))
    assert set(shadows(cluster)) == {"h1"}


def test_a_lost_lease_leaves_nothing_reserved() -> None:
    cluster = two_models("a1", "h1")
    created(cluster, *gang_of("a1", 4, "A100"), *gang_of("h1", 4, "H100"))
    assert len(shadows(cluster)) == 2
    cluster.lose_lease()
    assert cluster.ledger.fleet.reserved == ()


class Traffic(ComingPods):
    """Pods of two models that come and end while a large gang waits for each."""

    def __init__(self, sizes: dict[str, int]) -> None:
        """`sizes` of the gangs by model."""
        nodes = {"a1": 2, "a2": 4, "h1": 2, "h2": 4}
        models = {node: "A100" if node.startswith("a") else "H100" for node in nodes}
        self.groups = {model: a_group(model.lower(), minMember=n) for model, n in sizes.items()}
        self.sizes = sizes
        super().__init__(GangCluster(nodes, self.groups.values(), models=models))
        self.started: dict[str, float] = {}
        """Model -> when its gang was seen to have started."""

    def come(self, model: str, lasts: float, expected: float | None = None) -> None:
        self.create(single(self.name(), model, expected), lasts)

    def gangs_come(self) -> None:
        for model, size in self.sizes.items():
            created(self.cluster, *gang_of(model.lower(), size, model))

    def check(self) -> None:
        """No card is reserved for two, and none of a model that a gang does not take. Notes who has
        started."""
        found = [
            (node, card)
            for each in self.cluster.ledger.fleet.reserved
            for node, ids in each.cards.items()
            for card in ids
        ]
        assert len(found) == len(set(found))
        for each in self.cluster.reserved.all():
            model = each.known.bundle.name.removeprefix("default/")
            assert all(node.startswith(model[0]) for node in each.shadow.cards)
        for model, gang in self.groups.items():
            if self.cluster.phase(gang) is GangPhase.STARTED:
                self.started.setdefault(model, self.cluster.now)


LENGTHS = st.lists(st.floats(30, 600), min_size=40, max_size=40)
SIZES = st.fixed_dictionaries({"A100": st.integers(3, 6), "H100": st.integers(3, 6)})


@settings(max_examples=12, deadline=None)
@given(lengths=LENGTHS, sizes=SIZES)
def test_a_stream_of_small_pods_keeps_no_large_gang_waiting_for_ever(
    lengths: list[float], sizes: dict[str, int]
) -> None:
    """Nobody says when pods end, and new ones of both models come as soon as others have gone: each
    gang starts once it has waited for `STARVE_S` and the longest pod has ended, also the one that
    is second in line."""
    traffic = Traffic(sizes)
    for seconds in lengths[:8]:
        for model in sizes:
            traffic.come(model, seconds)
    tried(traffic.cluster, *traffic.cluster.waiting())
    traffic.gangs_come()
    began = traffic.cluster.now
    for seconds in lengths[8:]:
        for model in sizes:
            traffic.come(model, seconds)
        traffic.go_on(50)
        if len(traffic.started) == len(sizes):
            break
    assert traffic.started.keys() == sizes.keys()
    assert max(traffic.started.values()) <= began + STARVE_S + 600 + 60


PODS = st.lists(
    st.tuples(
        st.sampled_from(("A100", "H100", "A100,H100")), st.floats(10, 900), st.floats(0.5, 1),
        st.integers(0, 60),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(before=PODS, after=PODS, sizes=SIZES)
def test_what_passes_delays_no_gang_where_ends_are_true(
    before: list[tuple[str, float, float, int]],
    after: list[tuple[str, float, float, int]],
    sizes: dict[str, int],
) -> None:
    """Each pod ends when it has said, or earlier: each gang starts when it was first expected to,
    or earlier, whatever comes after it."""
    traffic = Traffic(sizes)
    cluster = traffic.cluster
    for model, expected, part, _ in before:
        traffic.come(model, expected * part, expected)
    tried(cluster, *cluster.waiting())
    traffic.gangs_come()
    expected_at = starts(cluster)
    for model, expected, part, pause in after:
        traffic.come(model, expected * part, expected)
        traffic.go_on(pause)
    traffic.go_on(max([*expected_at.values(), cluster.now]) + 20 - cluster.now)
    for gang, at in expected_at.items():
        assert traffic.started[gang.upper()] <= at + 20
