"""What kube-scheduler's own filters would refuse, and in which numbers it is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.kube.pod_requests import pod_requests
from tessera_core.kube.quantity import BadQuantity
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_schema.kube import Node, NodeStatus, Pod, Quantity, Resources, Taint, Toleration
from tessera_schema.reasons import Reason
from tessera_testing.builders import a_container, a_node, a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU_TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")


def asking(**amounts: Quantity) -> Pod:
    return a_pod(a_container(requests={k.replace("_", "-"): v for k, v in amounts.items()}))


def affinity(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def refused(pod: Pod, *nodes: Node, bound: tuple[Pod, ...] = ()) -> dict[str, str]:
    """Whether a node fits is answered in columns as it is node by node."""
    filters = KubeSchedulerFilters(nodes, bound)
    found = filters.refusals(pod)
    assert fitting(filters, pod) == [name for name in filters.names if name not in found]
    return {name: f"{reason.wire}: {text}" for name, (reason, text) in found.items()}


def fitting(filters: KubeSchedulerFilters, pod: Pod) -> list[str]:
    fits = filters.fitting(pod).tolist()
    return [name for name, fit in zip(filters.names, fits, strict=True) if fit]


def test_a_plain_pod_fits_every_plain_node() -> None:
    assert refused(a_pod(a_container()), a_node("a"), a_node("b")) == {}


def test_a_node_selector_shows_what_the_node_has_instead() -> None:
    pod = a_pod(a_container(), node_selector={"disk": "ssd"})
    nodes = (a_node("a", labels={"disk": "ssd"}), a_node("b", labels={"disk": "hdd"}), a_node("c"))
    assert refused(pod, *nodes) == {
        "b": "NodeNotSelected: spec.nodeSelector asks disk=ssd, the node has disk=hdd",
        "c": "NodeNotSelected: spec.nodeSelector asks disk=ssd, the node has no disk",
    }


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        pytest.param([{"matchExpressions": [expression("n", "In", "5", "6")]}], True, id="In"),
        pytest.param([{"matchExpressions": [expression("n", "In", "6")]}], False, id="not-In"),
        pytest.param([{"matchExpressions": [expression("n", "NotIn", "6")]}], True, id="NotIn"),
        pytest.param(
            [{"matchExpressions": [expression("absent", "NotIn", "6")]}], True, id="NotIn-absent"
        ),
        pytest.param([{"matchExpressions": [expression("n", "NotIn", "5")]}], False, id="is-In"),
        pytest.param([{"matchExpressions": [expression("n", "Exists")]}], True, id="Exists"),
        pytest.param([{"matchExpressions": [expression("m", "Exists")]}], False, id="not-Exists"),
        pytest.param([{"matchExpressions": [expression("m", "DoesNotExist")]}], True, id="absent"),
        pytest.param([{"matchExpressions": [expression("n", "DoesNotExist")]}], False, id="there"),
        pytest.param([{"matchExpressions": [expression("n", "Gt", "4")]}], True, id="Gt"),
        pytest.param([{"matchExpressions": [expression("n", "Gt", "5")]}], False, id="not-Gt"),
        pytest.param([{"matchExpressions": [expression("n", "Lt", "6")]}], True, id="Lt"),
        pytest.param([{"matchExpressions": [expression("word", "Gt", "4")]}], False, id="word-Gt"),
        pytest.param([{"matchExpressions": [expression("m", "Lt", "4")]}], False, id="absent-Lt"),
        pytest.param(
            [
                {"matchExpressions": [expression("n", "In", "6")]},
                {"matchExpressions": [expression("n", "Exists")]},
            ],
            True,
            id="terms-are-alternatives",
        ),
        pytest.param(
            [{"matchExpressions": [expression("n", "Exists"), expression("m", "Exists")]}],
            False,
            id="expressions-must-all-hold",
        ),
        pytest.param(
            [{"matchFields": [expression("metadata.name", "In", "a")]}], True, id="by-name"
        ),
        pytest.param(
            [{"matchFields": [expression("metadata.name", "NotIn", "a")]}], False, id="not-by-name"
        ),
        pytest.param([{}], False, id="an-empty-term-matches-nothing"),
        pytest.param([], False, id="no-terms-match-nothing"),
    ],
)
def test_required_node_affinity_is_respected(terms: list[dict[str, Any]], *, fits: bool) -> None:
    pod = a_pod(a_container(), affinity=affinity(*terms))
    node = a_node("a", labels={"n": "5", "word": "five"})
    assert bool(refused(pod, node)) is not fits


def test_a_failed_affinity_names_the_expression_and_what_the_node_has() -> None:
    pod = a_pod(
        a_container(), affinity=affinity({"matchExpressions": [expression("zone", "In", "a", "b")]})
    )
    assert refused(pod, a_node("n", labels={"zone": "c"})) == {
        "n": "NodeNotSelected: required node affinity: none of 1 terms holds: "
        "zone In (a, b), the node has zone=c"
    }


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"nodeAffinity": []}, id="a-list"),
        pytest.param(
            affinity({"matchExpressions": [expression("n", "Near", "5")]}), id="an-unknown-operator"
        ),
        pytest.param(
            affinity({"matchExpressions": [expression("n", "Gt", "x")]}), id="Gt-of-a-word"
        ),
        pytest.param(affinity({"matchExpressions": [expression("n", "Gt")]}), id="Gt-of-nothing"),
        pytest.param(affinity({"matchExpressions": [expression("n", "In")]}), id="In-nothing"),
        pytest.param(
            affinity({"matchExpressions": [expression("n", "Exists", "5")]}), id="Exists-5"
        ),
        pytest.param(
            affinity({"matchFields": [expression("metadata.uid", "In", "a")]}), id="another-field"
        ),
        pytest.param(affinity({"matchExpressions": [{"key": 5}]}), id="no-operator"),
    ],
)
def test_an_affinity_that_makes_no_sense_is_reported_and_fits_nowhere(
    broken: dict[str, Any],
) -> None:
    reported = refused(a_pod(a_container(), affinity=broken), a_node("a"))["a"]
    assert reported.startswith("InvalidRequest: spec.affinity")


def test_preferences_refuse_nothing() -> None:
    preferred = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchExpressions": [expression("n", "Exists")]},
                }
            ]
        },
        "podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]},
    }
    assert refused(a_pod(a_container(), affinity=preferred), a_node("a")) == {}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        pytest.param(Toleration(key="gpu", value="yes"), True, id="equal"),
        pytest.param(Toleration(key="gpu", value="yes", operator=""), True, id="empty-operator"),
        pytest.param(Toleration(key="gpu", value="no"), False, id="another-value"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, id="exists"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(key="cpu", operator="Exists"), False, id="another-key"),
        pytest.param(
            Toleration(key="gpu", operator="Exists", effect="NoExecute"), False, id="another-effect"
        ),
        pytest.param(Toleration(key="gpu", operator="Near", value="yes"), False, id="no-operator"),
    ],
)
def test_a_taint_needs_its_toleration(toleration: Toleration, *, fits: bool) -> None:
    pod = a_pod(a_container(), tolerations=(toleration,))
    assert bool(refused(pod, a_node("a", taints=(GPU_TAINT,)))) is not fits


def test_a_taint_is_named_and_a_preference_is_none() -> None:
    soft = Taint(key="gpu", value="yes", effect="PreferNoSchedule")
    hard = Taint(key="dead", effect="NoExecute")
    assert refused(a_pod(a_container()), a_node("a", taints=(soft,)), a_node("b", taints=(hard,))) \
        == {"b": "NodeTainted: taint dead:NoExecute is not tolerated"}  # fmt: skip


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    node = a_node("a", unschedulable=True)
    reported = "NodeUnschedulable: the node is cordoned (spec.unschedulable)"
    assert refused(a_pod(a_container()), node) == {"a": reported}
    everything = Toleration(operator="Exists")
    assert refused(a_pod(a_container(), tolerations=(everything,)), node) == {}


@pytest.mark.parametrize(
    ("pod", "reported"),
    [
        pytest.param(asking(cpu="4"), "cpu: asks 4, 2.5 of 4 free", id="cpu"),
        pytest.param(asking(cpu="2500m"), "", id="cpu-that-fits-exactly"),
        pytest.param(asking(memory="7Gi"), "memory: asks 7 GiB, 6 GiB of 8 GiB free", id="memory"),
        pytest.param(
            asking(ephemeral_storage=2_000_000),
            "ephemeral-storage: asks 1.9073 MiB, 976.56 KiB of 976.56 KiB free",
            id="storage",
        ),
        pytest.param(
            asking(**{"hugepages-2Mi": "4Mi"}),
            "hugepages-2Mi: asks 4 MiB, 0 bytes of 0 bytes free",
            id="huge-pages-that-no-node-lists",
        ),
        pytest.param(asking(cpu=0), "", id="zero-is-nothing"),
        pytest.param(
            asking(cpu=3, memory="9Gi"),
            "cpu: asks 3, 2.5 of 4 free; memory: asks 9 GiB, 6 GiB of 8 GiB free",
            id="both",
        ),
        pytest.param(
            a_pod(a_container(limits={"cpu": 4})), "cpu: asks 4, 2.5 of 4 free", id="limits-alone"
        ),
        pytest.param(
            asking(**{"vendor.com/nic": 1}),
            "vendor.com/nic: asks 1, 0 of 0 free",
            id="extended-resources-that-no-node-lists",
        ),
    ],
)
def test_resources_are_what_bound_pods_left(pod: Pod, reported: str) -> None:
    node = a_node("a", capacity={"cpu": "4", "memory": "8Gi", "ephemeral-storage": "1e6"})
    bound = a_pod(a_container(requests={"cpu": "1500m", "memory": "2Gi"}), name="b", node="a")
    done = a_pod(a_container(requests={"cpu": 4}), name="d", node="a", phase="Succeeded")
    expected = {"a": f"NodeInsufficientResource: {reported}"} if reported else {}
    assert refused(pod, node, bound=(bound, done)) == expected


def test_resources_of_the_dialects_are_not_counted_here() -> None:
    fit = KubeSchedulerFilters([a_node("a")], managed=frozenset({"vendor.com/gpu"}))
    assert fit.refusals(asking(**{"vendor.com/gpu": 99})) == {}


def test_what_the_pod_as_a_whole_requests_replaces_the_sum() -> None:
    pod = a_pod(
        a_container(requests={"cpu": 1}), a_container(requests={"cpu": 1}),
        resources=Resources(requests={"cpu": 8}),
    )  # fmt: skip
    assert pod_requests(pod) == {"cpu": 8000, "pods": 1}


def test_nodes_are_not_limited_in_what_they_do_not_list() -> None:
    assert (
        refused(asking(cpu=1000, memory="1Ti"), a_node("a", capacity={"vendor.com/gpu": 8})) == {}
    )


def test_capacity_stands_in_for_a_missing_allocatable() -> None:
    capacity_only = a_node("a", capacity={"cpu": 1})
    node = Node(
        metadata=capacity_only.metadata, status=NodeStatus(capacity={"cpu": 1}, allocatable={})
    )
    assert set(refused(asking(cpu=2), node)) == {"a"}


def test_places_for_pods_are_counted() -> None:
    fit = KubeSchedulerFilters([a_node("a", capacity={"pods": 2})], [a_pod(name="b", node="a")])
    assert dict(fit.refusals(a_pod())) == {}
    fit.take(a_pod(), "a")
    reported = (Reason.NODE_INSUFFICIENT_RESOURCE, "pods: asks 1, 0 of 2 free")
    assert dict(fit.refusals(a_pod())) == {"a": reported}


def test_what_a_placed_pod_took_is_gone_for_the_next() -> None:
    fit = KubeSchedulerFilters([a_node("a", capacity={"cpu": 3}), a_node("b", capacity={"cpu": 2})])
    pod = asking(cpu=2)
    before = fit.refusals(pod)
    fit.take(pod, "a")
    assert dict(before) == {}, "an answer once given stays as it was"
    assert set(fit.refusals(pod)) == {"a"}
    assert fitting(fit, pod) == ["b"]
    assert set(fit.refusals(asking(cpu=1))) == set()
    fit.take(pod, "b")
    fit.take(pod, "no-such-node")
    assert set(fit.refusals(pod)) == {"a", "b"}


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(a_node("a", capacity={"cpu": 3}), id="as-it-was"),
        pytest.param(a_node("a", capacity={"cpu": 4, "memory": "1Gi"}), id="larger"),
        pytest.param(a_node("a", capacity={"cpu": 3, "memory": 1}), id="smaller"),
        pytest.param(a_node("a"), id="nothing-is-listed"),
        pytest.param(a_node("a", capacity={"cpu": 4}, taints=(GPU_TAINT,)), id="tainted"),
        pytest.param(a_node("a", capacity={"cpu": 4}, labels={"disk": "ssd"}), id="labelled"),
    ],
)
def test_a_node_that_changes_is_as_if_it_had_been_so(now: Node) -> None:
    before, other = a_node("a", capacity={"cpu": 3}), a_node("b", capacity={"memory": "1Gi"})
    runs = replace(asking(cpu=2), spec=replace(asking(cpu=2).spec, node_name="a"))
    pods = (
        asking(cpu=1, memory=1), asking(cpu=2, memory="1Mi"),
        a_pod(a_container(), node_selector={"disk": "ssd"}),
    )  # fmt: skip
    changed = KubeSchedulerFilters([before, other], [runs])
    made = KubeSchedulerFilters([now, other], [runs])
    copy = changed.scratch()
    for _ in range(2):  # once before anything was asked, once after
        assert changed.replace(now)
        for pod in pods:
            assert dict(changed.refusals(pod)) == dict(made.refusals(pod))
            assert fitting(changed, pod) == fitting(made, pod)
            assert changed.copies(pod, 9).tolist() == made.copies(pod, 9).tolist()
    assert fitting(copy, asking(cpu=1)) == ["a", "b"]
    assert fitting(copy, pods[2]) == []


def test_a_node_that_is_new_or_lists_something_new_takes_the_filters_to_be_made_again() -> None:
    fit = KubeSchedulerFilters([a_node("a", capacity={"cpu": 3})])
    assert not fit.replace(a_node("b", capacity={"cpu": 3}))
    assert not fit.replace(a_node("a", capacity={"cpu": 0, "hugepages-2Mi": "1Gi"}))
    assert fitting(fit, asking(cpu=1)) == ["a"]


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        pytest.param(
            a_pod(a_container(requests={"cpu": 1}), a_container(requests={"cpu": "500m"})),
            1500,
            id="containers-add-up",
        ),
        pytest.param(
            a_pod(a_container(requests={"cpu": 1}), init=(a_container(requests={"cpu": 3}),)),
            3000,
            id="a-large-init-container-counts-alone",
        ),
        pytest.param(
            a_pod(
                a_container(requests={"cpu": 1}),
                init=(
                    a_container(requests={"cpu": 2}, sidecar=True),
                    a_container(requests={"cpu": 4}),
                ),
            ),
            6000,
            id="init-beside-an-earlier-sidecar",
        ),
        pytest.param(
            a_pod(
                a_container(requests={"cpu": 5}),
                init=(
                    a_container(requests={"cpu": 4}),
                    a_container(requests={"cpu": 2}, sidecar=True),
                ),
            ),
            7000,
            id="a-later-sidecar-does-not-meet-the-init-container",
        ),
        pytest.param(
            a_pod(a_container(requests={"cpu": 1}), overhead={"cpu": "250m"}),
            1250,
            id="overhead-comes-on-top",
        ),
        pytest.param(
            a_pod(a_container(limits={"cpu": 4}, requests={"cpu": 1})),
            1000,
            id="a-request-goes-before-its-limit",
        ),
    ],
)
def test_a_pod_requests_by_kubernetes_own_rule(pod: Pod, cpu: int) -> None:
    assert pod_requests(pod) == {"cpu": cpu, "pods": 1}


@pytest.mark.parametrize("amount", ["lots", "-1", "1e30"])
def test_a_request_that_makes_no_sense_is_reported_with_its_field(amount: str) -> None:
    reported = refused(asking(memory=amount), a_node("a"))["a"]
    assert reported.startswith("InvalidRequest: container c0: resources[memory]: ")
    with pytest.raises(BadQuantity):
        pod_requests(asking(memory=amount))


def test_amounts_of_nodes_and_bound_pods_that_make_no_sense_are_reported() -> None:
    bound = a_pod(a_container(requests={"cpu": "-1"}), name="b", node="a")
    fit = KubeSchedulerFilters([a_node("a", capacity={"cpu": "four"})], [bound])
    assert dict(fit.refusals(asking(cpu=64))) == {}
    assert [w.partition(":")[0] for w in fit.warnings] == ["node a", "pod default/b"]


def test_thousands_of_nodes_and_a_thousand_equal_pods_are_quick() -> None:
    nodes = [
        a_node(f"n{i}", capacity={"cpu": 8}, taints=(GPU_TAINT,) if i % 2 else ())
        for i in range(5000)
    ]
    fit = KubeSchedulerFilters(nodes)
    pod = asking(cpu=4)
    for i in range(1000):
        fit.take(pod, f"n{2 * i}")
        fit.take(pod, f"n{2 * i}")
        assert len(fit.refusals(pod)) == 2500 + i + 1
