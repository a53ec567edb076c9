"""Objects, annotations and labels of five systems become one kind of gang. The cases' numbers are
those of the specification of gangs."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.gangs.gang import Gang, GangOrigin, MatchPolicy, PreemptibleMembers
from tessera_core.gangs.group_names import NamedGroup, TwoGroups, named_group
from tessera_core.gangs.pod_groups import BadPodGroup
from tessera_core.gangs.quorum import minimum_members, missing_members, still_needed
from tessera_schema.kube import Pod, SchedulingGroup
from tessera_testing.builders import a_container, a_pod
from tests.core.gangs.setting import (
    GROUP_LABEL,
    KOORD,
    KOORD_LABEL,
    VOLCANO_NAME,
    a_group,
    a_koord_member,
    a_kubernetes_member,
    a_member,
    catalog,
)


def a_bare_pod(**fields: Any) -> Pod:
    return a_pod(a_container({"nvidia.com/gpu": 1}), **fields)


@pytest.mark.parametrize(
    ("pod", "origin", "field"),
    [
        (a_bare_pod(annotations={VOLCANO_NAME: "g"}), "volcano", VOLCANO_NAME),
        (
            a_bare_pod(annotations={"scheduling.volcano.sh/group-name": "g"}),
            "volcano",
            "scheduling.volcano.sh/group-name",
        ),
        (a_bare_pod(labels={KOORD_LABEL: "g"}), "koordinator", KOORD_LABEL),
        (a_bare_pod(labels={KOORD_LABEL + "/name": "g"}), "koordinator", KOORD_LABEL + "/name"),
        (a_bare_pod(annotations={KOORD + "name": "g"}), "koordinator", KOORD + "name"),
        (a_bare_pod(labels={GROUP_LABEL: "g"}), "coscheduling", GROUP_LABEL),
        (
            a_bare_pod(scheduling_group=SchedulingGroup(pod_group_name="g")),
            "kubernetes",
            "spec.schedulingGroup.podGroupName",
        ),
        (
            a_bare_pod(labels={"kueue.x-k8s.io/pod-group-name": "g"}),
            "kueue",
            "kueue.x-k8s.io/pod-group-name",
        ),
        (
            a_bare_pod(annotations={VOLCANO_NAME: "g"}, labels={GROUP_LABEL: "g"}),
            "volcano",
            VOLCANO_NAME,
        ),
    ],
)
def test_a_pod_names_its_gang(pod: Pod, origin: str, field: str) -> None:
    named = named_group(pod)
    assert isinstance(named, NamedGroup)
    assert named.id == f"{origin}/default/g"
    assert field in named.field


def test_two_different_groups_are_refused_with_both_fields() -> None:
    """GA2"""
    pod = a_bare_pod(
        labels={KOORD_LABEL: "a", KOORD_LABEL + "/name": "b"}, annotations={KOORD + "name": "c"}
    )
    named = named_group(pod)
    assert isinstance(named, TwoGroups)
    assert f"metadata.labels[{KOORD_LABEL}]: a" in named.message
    assert f"metadata.labels[{KOORD_LABEL}/name]: b" in named.message
    assert "remove one of the two" in named.message
    assert catalog([pod]).refused == {pod.metadata.uid: named.message}
    assert catalog([pod]).of_pod == {}


def test_volcano_reads_its_second_key_only_without_the_first() -> None:
    pod = a_bare_pod(annotations={VOLCANO_NAME: "a", "scheduling.volcano.sh/group-name": "b"})
    named = named_group(pod)
    assert isinstance(named, NamedGroup)
    assert named.name == "a"


def test_illegal_values_of_koordinator_count_as_not_written() -> None:
    """GA1"""
    gang = catalog([
        a_koord_member("p3", "gangb", min_available="xxx"),
        a_koord_member(
            "p4", "gangb", min_available="2", total_number="1", mode="foo", waiting_time="foo",
            groups="ganga,gangx",
        ),
    ]).gangs["koordinator/default/gangb"]  # fmt: skip
    read = gang.gang
    assert (read.min, read.total, read.patience_s, read.match) == (2, 2, 600, MatchPolicy.ONCE)
    assert read.bundle == ("default/gangb",)
    assert [member.pod.metadata.name for member in gang.waiting] == ["p3", "p4"]
    ignored = [text.split("]")[0].rpartition("/")[2] for text in read.warnings]
    assert ignored == ["waiting-time", "groups", "mode"]


def test_keys_of_koordinator_stand_on_its_podgroup() -> None:
    gang = a_group(
        "g", GangOrigin.KOORDINATOR, minMember=3, scheduleTimeoutSeconds=30,
        annotations={
            KOORD + "match-policy": "waiting-and-running", KOORD + "mode": "NonStrict",
            KOORD + "groups": '["default/g", "other/h"]', KOORD + "total-number": "5",
        },
    )  # fmt: skip
    assert (gang.min, gang.total, gang.patience_s) == (3, 5, 30)
    assert gang.match is MatchPolicy.PRESENT
    assert gang.bundle == ("default/g", "other/h")
    assert "NonStrict: is held as Strict" in gang.warnings[0]


@pytest.mark.parametrize(
    ("gang", "match", "patience", "least"),
    [
        (a_group("g", minMember=4), MatchPolicy.PRESENT, None, 4),
        (
            a_group("g", minMember=4, annotations={"volcano.sh/sla-waiting-time": "1h30m"}),
            MatchPolicy.PRESENT,
            5400,
            4,
        ),
        (a_group("g", GangOrigin.KOORDINATOR, minMember=2), MatchPolicy.ONCE, 600, 2),
        (a_group("g", GangOrigin.COSCHEDULING, minMember=2), MatchPolicy.PRESENT, 60, 2),
        (
            a_group("g", GangOrigin.KUBERNETES, schedulingPolicy={"gang": {"minCount": 3}}),
            MatchPolicy.PRESENT,
            None,
            3,
        ),
        (
            a_group("g", GangOrigin.KUBERNETES, schedulingPolicy={"basic": {}}),
            MatchPolicy.PRESENT,
            None,
            0,
        ),
    ],
)
def test_a_podgroup_of_each_api_is_read(
    gang: Gang, match: MatchPolicy, patience: float | None, least: int
) -> None:
    assert (gang.match, gang.patience_s, gang.min) == (match, patience, least)
    assert gang.together is (least > 1)


def test_a_group_of_plain_pods_of_kueue_is_a_gang() -> None:
    notes = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    pod = a_bare_pod(labels={"kueue.x-k8s.io/pod-group-name": "g"}, annotations=notes)
    gang = catalog([pod]).gangs["kueue/default/g"]
    assert (gang.gang.min, gang.gang.match) == (2, MatchPolicy.ONCE)
    assert missing_members(gang) == "default/g has 1 of 2 members"


def test_fields_of_volcano() -> None:
    gang = a_group(
        "g", minMember=3, minTaskMember={"ps": 1, "worker": 2}, queue="q1",
        annotations={"volcano.sh/preemptable": "no"},
    )  # fmt: skip
    assert gang.roles == {"ps": 1, "worker": 2}
    assert gang.queue == "q1"
    assert gang.preemptible is PreemptibleMembers.NONE
    assert a_group("g", minMember=1).queue == "default"


def test_minima_of_roles_count_only_if_the_minimum_is_their_sum() -> None:
    """GA9"""
    gang = a_group("g", minMember=2, minTaskMember={"master": 2, "worker": 1})
    assert gang.roles == {}
    assert "minima of tasks do not count" in gang.warnings[0]
    members = [a_member(f"w{i}", "g", role="worker") for i in "12"]
    assert missing_members(catalog(members, gang).gangs[gang.id]) == ""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minMember": 2, "minTaskMember": {"ps": -3}}, "spec.minTaskMember[ps]"),
        ({"scheduleTimeoutSeconds": -5}, "spec.scheduleTimeoutSeconds"),
    ],
)
def test_a_podgroup_that_makes_no_sense_is_refused(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(BadPodGroup) as refused:
        a_group("g", **spec)
    assert refused.value.field == field
    assert "0 or more" in str(refused.value)


@pytest.mark.parametrize(
    ("gang", "said"),
    [
        (a_group("g", minMember=2, networkTopology={"mode": "hard"}), "spec.networkTopology.mode"),
        (
            a_group(
                "g", GangOrigin.KOORDINATOR, minMember=2,
                annotations={
                    KOORD + "network-topology-spec":
                        '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
                },
            ),
            "MustGather",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_promised_is_a_problem_of_the_gang(gang: Gang, said: str) -> None:
    assert said in gang.problem
    assert "write" in gang.problem


def test_a_group_that_does_not_exist_is_named_with_the_remedy() -> None:
    """GA7, the first look"""
    found = catalog([a_kubernetes_member("p1", "pg1")]).gangs["kubernetes/default/pg1"]
    assert "PodGroup default/pg1 does not exist" in found.gang.problem
    assert "kubectl get podgroups.scheduling.k8s.io" in found.gang.problem


def test_members_of_kubernetes_have_one_scheduler_and_one_priority() -> None:
    gang = a_group("g", GangOrigin.KUBERNETES, schedulingPolicy={"gang": {"minCount": 2}})
    pods = [a_kubernetes_member(f"p{n}", "g", priority=n) for n in (1, 2)]
    assert "spec.priority 1, 2" in catalog(pods, gang).gangs[gang.id].gang.problem
    pods = [a_kubernetes_member(f"p{n}", "g", scheduler=n) for n in ("a", "b")]
    assert "spec.schedulerName a, b" in catalog(pods, gang).gangs[gang.id].gang.problem


def test_pods_behind_a_gate_of_others_do_not_count() -> None:
    """GA6, the first look"""
    gang = a_group("g", minMember=3)
    pods = [
        a_member("p1", "g", gates=("tessera.dev/admission",)),
        a_member("p2", "g"),
        a_member("p3", "g", gates=("kueue.x-k8s.io/admission",)),
    ]
    assert missing_members(catalog(pods, gang).gangs[gang.id]) == (
        "default/g has 2 of 3 members; default/p3 cannot be placed: spec.schedulingGates: "
        "kueue.x-k8s.io/admission: others open it"
    )
    opened = [*pods[:2], a_member("p3", "g")]
    assert missing_members(catalog(opened, gang).gangs[gang.id]) == ""


def test_members_that_name_another_queue_than_the_first_are_refused() -> None:
    gang = a_group("g", GangOrigin.COSCHEDULING, minMember=2)
    pods = [
        a_bare_pod(
            name=f"p{n}", labels={GROUP_LABEL: "g"},
            annotations={"scheduling.volcano.sh/queue-name": f"q{n}"},
        )
        for n in (1, 2)
    ]  # fmt: skip
    found = catalog(pods, gang)
    assert found.gangs[gang.id].gang.queue == "q1"
    assert "its gang default/g is in queue q1" in found.refused[pods[1].metadata.uid]
    assert found.of_pod == {pods[0].metadata.uid: gang.id}


@pytest.mark.parametrize(
    ("policy", "needed"),
    [("once-satisfied", 0), ("only-waiting", 3), ("waiting-and-running", 1)],
)
def test_who_counts_after_the_start(policy: str, needed: int) -> None:
    """GC1 and GC2: two of three run, the successor of the third waits"""
    gang = a_group(
        "g", GangOrigin.KOORDINATOR, minMember=3, annotations={KOORD + "match-policy": policy}
    )
    pods = [a_bare_pod(name=f"p{n}", labels={KOORD_LABEL: "g"}, node="n1") for n in (1, 2)]
    found = catalog([*pods, a_bare_pod(name="p3", labels={KOORD_LABEL: "g"})], gang)
    assert still_needed(found.gangs[gang.id]) == (needed, {})
    lacks = "default/g has 1 of 3 members" if policy == "only-waiting" else ""
    assert missing_members(found.gangs[gang.id]) == lacks


def test_pods_that_ended_well_count_in_volcano() -> None:
    gang = a_group("g", minMember=3)
    pods = [
        a_member("p1", "g", node="n1", phase="Succeeded"),
        a_member("p2", "g", node="n1"),
        a_member("p3", "g", node="n1", phase="Failed"),
        a_member("p4", "g"),
    ]
    assert still_needed(catalog(pods, gang).gangs[gang.id]) == (1, {})


def test_the_minimum_is_roles_then_priority_then_index_then_name() -> None:
    gang = a_group("g", minMember=3, minTaskMember={"ps": 1})
    pods = [
        a_member("w3", "g", role="worker", annotations={"volcano.sh/task-index": "3"}),
        a_member("w2", "g", role="worker", annotations={"volcano.sh/task-index": "2"}),
        a_member("w9", "g", role="worker", priority=5, annotations={"volcano.sh/task-index": "9"}),
        a_member("ps", "g", role="ps", priority=-1),
    ]
    chosen = minimum_members(catalog(pods, gang).gangs[gang.id])
    assert [member.pod.metadata.name for member in chosen] == ["w9", "w2", "ps"]
    lacks = catalog(pods[:3], gang).gangs[gang.id]
    assert missing_members(lacks) == "default/g has 0 of 1 members of role ps"


def test_a_gang_of_a_bundle_that_does_not_exist_is_named() -> None:
    pod = a_koord_member("p", "a", min_available="2", groups='["default/a", "default/b"]')
    found = catalog([pod])
    (first, second) = found.bundle(found.gangs["koordinator/default/a"].gang)
    assert not isinstance(first, str)
    assert second == "default/b"
