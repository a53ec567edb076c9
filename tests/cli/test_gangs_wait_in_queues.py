"""A gang counts whole for the caps of its queue; queues are named in the order of their turns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera
from tests.cli.gang_manifests import CARD, group, holder, members, one_gang, placed, planned, queue


@pytest.mark.parametrize(
    ("queues", "message", "remedy"),
    [
        (
            [queue("other")],
            "PodGroup default/g: spec.queue: queue q does not exist",
            "create it, or name one of other",
        ),
        (
            [queue("q", "Closed")],
            "PodGroup default/g: spec.queue: Queue q is Closed",
            "open it, or name another queue",
        ),
        (
            [queue("q", parent="r"), queue("r", parent="q")],
            "PodGroup default/g: spec.queue: queues are in a circle: q in r in q",
            "give one of them another parent",
        ),
    ],
)
def test_a_queue_that_takes_no_pods(
    tessera: Tessera, queues: list[Any], message: str, remedy: str
) -> None:
    ran = planned(tessera, node(), *queues, group("g", minMember=2, queue="q"), *members("g", 2))
    gang = one_gang(ran)
    assert (gang["verdict"], gang["message"], gang["remedy"]) == ("waiting", message, remedy)


def test_a_cap_counts_the_whole_gang(tessera: Tessera) -> None:
    """GE4"""
    capped = queue("q", capability={"nvidia.com/gpu": 3})
    gang = group("g", minMember=4, queue="q")
    ran = planned(tessera, node(cards=8), capped, gang, *members("g", 4))
    assert one_gang(ran)["message"] == "Queue q allows 3 cards of nvidia, 0 used, 4 asked"
    assert (one_gang(ran)["verdict"], placed(ran)) == ("rejected", set())
    running = holder("x", 0)
    running["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "q"
    ran = planned(
        tessera, node(cards=8), capped, running, group("g", minMember=3, queue="q"),
        *members("g", 3),
    )  # fmt: skip
    assert one_gang(ran)["message"] == "Queue q allows 3 cards of nvidia, 1 used, 3 asked"
    assert one_gang(ran)["verdict"] == "waiting"


def test_an_elastic_quota_of_the_namespace_counts(tessera: Tessera) -> None:
    """Two namespaces may have plain quotas of one name; the gang is in that of its own."""
    quotas = [
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "gpus", "namespace": namespace},
            "spec": {"max": {"nvidia.com/gpu": most}},
        }
        for namespace, most in (("other", 8), ("default", 1))
    ]  # fmt: skip
    gang = group("g", "scheduling.x-k8s.io/v1alpha1", minMember=2)
    pods = [pod(f"g{n}", CARD, labels={"scheduling.x-k8s.io/pod-group": "g"}) for n in (1, 2)]
    ran = planned(tessera, node(), *quotas, gang, *pods)
    assert one_gang(ran)["message"] == (
        "ElasticQuota default/gpus allows 1 cards of nvidia, 0 used, 2 asked"
    )


def test_queues_are_named_in_the_order_in_which_they_would_be_served(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    running = holder("x", 0)
    running["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "q1"
    deserves = {"nvidia.com/gpu": 2}
    objects = (
        node(cards=4), running, queue("q1", deserved={}), queue("q2", deserved=deserves),
        group("a", minMember=2, queue="q1"), group("b", minMember=2, queue="q2"),
        *members("a", 2), *members("b", 2),
    )  # fmt: skip
    ran = planned(tessera, *objects)
    first, second = ran.queues
    assert (first["name"], first["share"], first["by"]) == ("q2", 0, "")
    assert (second["name"], second["share"], second["by"]) == ("q1", 0.25, "cards of nvidia")
    assert (first["entitled"]["cards of nvidia"], second["used"]["cards of nvidia"]) == (2, 1)
    table = tessera("place", "-f", "-", stdin=text(*objects))
    assert (
        "queues in the order in which they would be served: q2 (within what it deserves), "
        "q1 (25.0% beyond what it deserves, by cards of nvidia)"
    ) in table.out


def test_queues_that_nobody_gave_are_not_known(tessera: Tessera) -> None:
    ran = planned(tessera, node(), group("g", minMember=2, queue="q"), *members("g", 2))
    assert placed(ran) == {"g1", "g2"}
    assert "spec.queue: q: no Queue was read, so its state and its caps are not known" in ran.err
