"""Gangs are placed whole or not at all, and one that can never start is named, with the remedy. The
cases' numbers are those of the specification of gangs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera
from tests.cli.gang_manifests import (
    CARD,
    EXAMPLES,
    GROUP,
    KOORD,
    group,
    holder,
    koord,
    member,
    members,
    one_gang,
    placed,
    planned,
    queue,
)


def test_the_examples(tessera: Tessera) -> None:
    ran = tessera("place", "-f", str(EXAMPLES / "volcano.yaml"), "-o", "json")
    assert {name: gang["verdict"] for name, gang in ran.gangs.items()} == {
        "volcano/team/train": "placed",
        "volcano/team/next": "waiting",
        "volcano/team/too-large": "rejected",
    }
    assert sum(len(each["cards"]) for each in ran.pods) == 8
    assert "too-large" not in "".join(placed(ran))
    ran = tessera("place", "-f", str(EXAMPLES / "koordinator.yaml"), "-o", "json")
    assert (ran.status, len(placed(ran))) == (0, 4)
    assert [gang["bundle"] for gang in ran.gangs.values()] == [["team/actor", "team/learner"]] * 2


def test_of_two_gangs_that_fit_one_at_a_time_the_first_is_whole(tessera: Tessera) -> None:
    """GB1: members come interleaved"""
    pods = [each for pair in zip(members("a", 4), members("b", 4), strict=True) for each in pair]
    gangs = (group("a", minMember=4), group("b", minMember=4))
    ran = planned(tessera, node(cards=4), *gangs, *pods)
    assert (ran.status, placed(ran)) == (2, {"a1", "a2", "a3", "a4"})
    assert ran.gangs["volcano/default/b"]["message"].startswith("0 of 4 members like default/b")


def test_bundles_do_not_hold_half_of_each_other(tessera: Tessera) -> None:
    """GB2: members of a, c, b, d in this order, bundles ab and cd, four cards"""
    pods = [
        koord(f"{gang}{n}", gang, bundle="ab" if gang in "ab" else "cd")
        for gang in "acbd"
        for n in (1, 2)
    ]
    assert placed(planned(tessera, node(cards=4), *pods)) == {"a1", "a2", "b1", "b2"}


def test_one_gang_that_names_another_makes_a_bundle_of_both(tessera: Tessera) -> None:
    pods = [koord(f"b{n}", "b") for n in (1, 2)]
    pods += [koord(f"a{n}", "a", bundle="ab") for n in (1, 2)]
    ran = planned(tessera, node(cards=3), *pods)
    assert placed(ran) == set()
    assert [gang["bundle"] for gang in ran.gangs.values()] == [["default/a", "default/b"]] * 2
    assert len(placed(planned(tessera, node(cards=4), *pods))) == 4


def test_a_bundle_waits_for_all_its_gangs(tessera: Tessera) -> None:
    """GB4: b has enough, a of its bundle has not"""
    notes = {KOORD + "min-available": "3"}
    pods = [koord(f"b{n}", "b", bundle="ab") for n in (1, 2)]
    pods += [koord("a1", "a", bundle="ab", **notes)]
    ran = planned(tessera, node(cards=8), *pods)
    assert placed(ran) == set()
    assert ran.gangs["koordinator/default/b"]["message"] == "default/a has 1 of 3 members"
    missing = planned(tessera, node(cards=8), *pods[:2])
    assert one_gang(missing)["message"] == "gang default/a of its bundle does not exist"


def test_too_few_members_never_start_and_hold_nothing(tessera: Tessera) -> None:
    """GA5"""
    ran = planned(tessera, node(cards=8), group("a", minMember=3), *members("a", 2))
    gang = one_gang(ran)
    assert (ran.status, gang["verdict"]) == (2, "rejected")
    assert gang["message"] == "default/a has 2 of 3 members"
    assert gang["remedy"].endswith("create the others, or lower PodGroup default/a: spec.minMember")
    assert [each["cards"] for each in ran.pods] == [[], []]
    assert {why["code"] for each in ran.pods for why in each["reasons"]} == {"GangWaiting"}


def test_a_member_behind_a_foreign_gate_may_still_come(tessera: Tessera) -> None:
    """GA6, the first look"""
    gated = member("a3", "a", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    ran = planned(tessera, node(cards=8), group("a", minMember=3), *members("a", 2), gated)
    assert one_gang(ran)["verdict"] == "waiting"
    assert "default/a3 cannot be placed: spec.schedulingGates" in one_gang(ran)["message"]
    assert set(ran.verdicts.values()) == {"waiting"}
    assert "kueue.x-k8s.io/admission: others open it" in ran.pods[2]["message"]


def test_roles_of_volcano_are_part_of_the_minimum(tessera: Tessera) -> None:
    """GB3: one master and one worker, each kind has a node of its own"""
    nodes = [node(f"n{n}", cards=1) for n in (1, 2)]
    for each, role in zip(nodes, ("master", "worker"), strict=True):
        each["metadata"]["labels"] = {"role": role}
    pods = []
    for n, role in enumerate(("master", "master", "worker", "worker")):
        made = member(f"p{n}", "g", nodeSelector={"role": role})
        made["metadata"]["annotations"]["volcano.sh/task-spec"] = role
        pods.append(made)
    roles = {"master": 1, "worker": 1}
    ran = planned(tessera, *nodes, group("g", minMember=2, minTaskMember=roles), *pods)
    assert {p["name"]: p["node"] for p in ran.pods if p["verdict"] == "placed"} == {
        "p0": "n1",
        "p2": "n2",
    }
    assert one_gang(ran)["message"] == "2 of 4 members together, 2 wait: the minimum runs without"


def test_minima_of_roles_do_not_count_beyond_the_minimum(tessera: Tessera) -> None:
    """GA9"""
    roles = {"master": 2, "worker": 1}
    gang = group("g", minMember=2, minTaskMember=roles)
    assert placed(planned(tessera, node(), gang, *members("g", 2))) == {"g1", "g2"}


def test_members_beyond_the_minimum_go_one_by_one(tessera: Tessera) -> None:
    """GB10"""
    ran = planned(tessera, node(cards=3), group("g", minMember=2), *members("g", 4))
    assert placed(ran) == {"g1", "g2", "g3"}
    message = "2 of 4 members together, 1 one by one, 1 waits: the minimum runs without"
    assert (one_gang(ran)["message"], one_gang(ran)["placed"]) == (message, 3)


def test_a_launcher_without_cards_is_part_of_the_gang(tessera: Tessera) -> None:
    """GB9, as far as a plan goes"""
    capacity = {"cpu": "2"}
    launcher = member("launcher", "g", {"cpu": "1"})
    workers = [member(f"w{n}", "g", {**CARD, "cpu": "1"}) for n in (1, 2)]
    gang = group("g", minMember=3)
    ran = planned(tessera, node(capacity=capacity), gang, launcher, *workers)
    assert placed(ran) == set()
    ran = planned(tessera, node(capacity={"cpu": "3"}), gang, launcher, *workers)
    assert placed(ran) == {"launcher", "w1", "w2"}
    assert ran.pods[0]["message"] == "asks for no accelerator; placed on n1 with gang default/g"


@pytest.mark.parametrize(
    ("policy", "verdict"), [("once-satisfied", "placed"), ("only-waiting", "rejected")]
)
def test_a_successor_of_a_member_that_runs_no_more(
    tessera: Tessera, policy: str, verdict: str
) -> None:
    """GC1 and GC2: two of three run, and the third one's successor comes alone"""
    notes = {KOORD + "match-policy": policy, KOORD + "min-available": "3"}
    running = [holder(f"g{n}", n) for n in (0, 1)]
    for each in running:
        each["metadata"]["annotations"].update({KOORD + "name": "g", **notes})
    ran = planned(tessera, node(cards=3), *running, koord("g2", "g", **notes))
    assert ran.verdicts == {"g2": verdict}


def test_of_a_gang_that_is_present_only_the_missing_members_start(tessera: Tessera) -> None:
    """GC3: the successor is placed next to the member that runs"""
    running = holder("g1", 0)
    running["metadata"]["annotations"][GROUP] = "g"
    gang = group("g", minMember=2)
    assert planned(tessera, node(), gang, running, member("g2", "g")).verdicts == {"g2": "placed"}


def test_a_gang_waits_for_cards_that_running_pods_hold(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=2), holder("x", 0), group("g", minMember=2), *members("g", 2))
    assert (ran.status, one_gang(ran)["verdict"]) == (2, "waiting")
    assert one_gang(ran)["message"] == (
        "1 of 2 members like default/g2 fit now: none is placed"
    )  # fmt: skip


def test_a_gang_that_even_idle_nodes_do_not_take_can_never_start(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=2), group("g", minMember=3), *members("g", 3))
    assert one_gang(ran)["verdict"] == "rejected"
    assert one_gang(ran)["message"].startswith("even on idle nodes 2 of 3 members like")
    assert one_gang(ran)["remedy"].endswith("or lower PodGroup default/g: spec.minMember")


def test_the_member_that_fits_on_no_node_is_named(tessera: Tessera) -> None:
    large = member("g2", "g", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000})
    ran = planned(
        tessera, node(), holder("x", 0), group("g", minMember=2), member("g1", "g"), large
    )
    message = one_gang(ran)["message"]
    assert message.startswith("member default/g2 asks for what no node has, even idle: 0/1 nodes")
    assert "40000 MiB" in message
    assert {"rejected"} == set(ran.verdicts.values())


def test_a_member_that_is_refused_by_itself_stops_its_gang(tessera: Tessera) -> None:
    wrong = member("g2", "g", {"nvidia.com/gpu": "1.5"})
    ran = planned(tessera, node(), group("g", minMember=2), member("g1", "g"), wrong)
    assert one_gang(ran)["message"].startswith("member default/g2: ")
    assert ran.verdicts == {"g1": "rejected", "g2": "rejected"}
    assert "1.5" in ran.pods[1]["message"]


def test_a_pod_that_names_two_groups_is_refused(tessera: Tessera) -> None:
    """GA2"""
    both = member("p", "a")
    both["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "b"}
    ran = planned(tessera, node(), group("a", minMember=2), both)
    assert ran.verdicts == {"p": "rejected"}
    assert "a pod is in one; remove one of the two" in ran.pods[0]["message"]


@pytest.mark.parametrize(
    "named",
    [
        {"annotations": {GROUP: "g"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    ],
)
def test_a_podgroup_that_is_missing_is_named(tessera: Tessera, named: dict[str, Any]) -> None:
    ran = planned(tessera, node(), pod("p", **named))
    assert (ran.status, ran.verdicts) == (2, {"p": "waiting"})
    assert one_gang(ran)["message"].endswith("g: PodGroup default/g does not exist")
    assert "kubectl get podgroups.scheduling." in one_gang(ran)["remedy"]


def test_a_kubernetes_podgroup_has_its_minimum_elsewhere(tessera: Tessera) -> None:
    """GA7: without it the pods wait, with it they start"""
    pods = [pod(f"p{n}", CARD) for n in (1, 2)]
    for each in pods:
        each["spec"]["schedulingGroup"] = {"podGroupName": "pg1"}
    without = planned(tessera, node(), *pods)
    assert "PodGroup default/pg1 does not exist" in one_gang(without)["message"]
    policy = {"gang": {"minCount": 2}}
    gang = group("pg1", "scheduling.k8s.io/v1alpha2", schedulingPolicy=policy)
    assert placed(planned(tessera, node(), gang, *pods)) == {"p1", "p2"}
    few = planned(tessera, node(cards=1), gang, *pods)
    assert placed(few) == set()


def test_all_members_lie_in_one_domain(tessera: Tessera) -> None:
    nodes = [node("n1", cards=1), node("n2", cards=1), node("n3", cards=2)]
    for each, rack in zip(nodes, "aab", strict=True):
        each["metadata"]["labels"] = {"rack": rack}
    pods = [pod(f"p{n}", CARD) for n in (1, 2)]
    for each in pods:
        each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    }
    gang = group("g", "scheduling.k8s.io/v1alpha2", **spec)
    ran = planned(tessera, *nodes, holder("x", 0), gang, *pods)
    assert {each["node"] for each in ran.pods} == {"n3"}
    ran = planned(tessera, *nodes[:2], holder("x", 0), gang, *pods)
    assert one_gang(ran)["verdict"] == "waiting"
    pods[1]["spec"]["nodeName"] = "n1"  # one runs on rack a: the other one goes there too
    pods[1]["status"] = {"phase": "Running"}
    pods[1]["metadata"]["annotations"] = holder("p2", 0)["metadata"]["annotations"]
    ran = planned(tessera, *nodes, gang, *pods)
    assert {each["name"]: each["node"] for each in ran.pods} == {"p1": "n2"}
    more = [{**pods[0], "metadata": {"name": f"p{n}"}} for n in (3, 4, 5)]
    ran = planned(tessera, *nodes, gang, *more)
    assert sorted(each["node"] for each in ran.pods) in (["", "n1", "n2"], ["", "n3", "n3"])
    assert "no room next to its other members" in "".join(each["message"] for each in ran.pods)
    spec["schedulingConstraints"] = {"topology": [{"key": "zone"}]}
    never = planned(tessera, *nodes, group("g", "scheduling.k8s.io/v1alpha2", **spec), *more[:2])
    assert "no nodes of one zone take all" in one_gang(never)["message"]


def test_a_member_of_another_scheduler_is_named(tessera: Tessera) -> None:
    foreign = member("g2", "g", schedulerName="yunikorn")
    ran = planned(tessera, node(), group("g", minMember=2), member("g1", "g"), foreign)
    assert ran.verdicts == {"g1": "waiting", "g2": "ignored"}
    message = one_gang(ran)["message"]
    assert "default/g has 1 of 2 members; default/g2 cannot be placed" in message
    assert "spec.schedulerName: yunikorn" in message


def test_a_quota_of_the_namespace_counts_the_whole_gang(tessera: Tessera) -> None:
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpu": "1"}},
    }  # fmt: skip
    ran = planned(tessera, node(), quota, group("g", minMember=2), *members("g", 2))
    assert placed(ran) == set()
    assert "allows 1 cards, 0 are used and 2 asked" in one_gang(ran)["message"]


def test_a_gang_of_one_is_none(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=1), group("g", minMember=1), *members("g", 2))
    assert (placed(ran), ran.gangs) == ({"g1"}, {})


def test_a_gang_of_four_thousand_is_answered(tessera: Tessera) -> None:
    spec = {"containers": [{"name": "c", "resources": {"limits": CARD}}]}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"tasks": [{"name": "w", "replicas": 4000, "template": {"spec": spec}}]},
    }  # fmt: skip
    ran = planned(tessera, node(), job)
    assert len(ran.pods) == 4000
    assert one_gang(ran)["message"].startswith("even on idle nodes 2 of 4000 members like")


def test_a_group_without_pods_is_named(tessera: Tessera) -> None:
    ran = planned(tessera, node(), group("g", minMember=3), pod("p"))
    assert ran.verdicts == {"p": "placed"}
    assert "PodGroup default/g: spec.minMember: 3: no pod of it is there to plan" in ran.err


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([group("g", minMember=-1)], "spec.minMember: -1: write a whole number, 0 or more"),
        ([group("g", minMember="two")], 'spec.minMember: "two": write a whole number'),
        ([group("g"), group("g")], "PodGroup default/g is there twice: remove one of the two"),
        ([queue("q", weight=0)], "spec.weight: 0: write 1 to 65535"),
        ([queue("q", weight="x")], 'spec.weight: "x": write a whole number'),
        ([queue("q", guarantee={"resource": "x"})], "spec.guarantee.resource"),
        (
            [queue("q", deserved={"cpu": []})],
            "spec.deserved[cpu]: a list of 0: write a whole number",
        ),
        ([queue("q"), queue("q")], "Queue q is there twice: remove one of the two"),
    ],
)
def test_objects_that_make_no_sense_are_refused(
    tessera: Tessera, objects: list[Any], said: str
) -> None:
    ran = planned(tessera, node(), *objects)
    assert ran.status == 1
    assert said in ran.err


def test_the_table_says_it_in_a_line_a_gang(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    objects = (group("a", minMember=2), group("b", minMember=2), *members("a", 2), *members("b", 2))
    ran = tessera("place", "-f", "-", "--why", stdin=text(node(), *objects))
    assert "gang default/a placed: 2 of 2 members together" in ran.out
    assert "gang default/b waiting: 0 of 2 members like default/b1 fit now: none is" in ran.out
    assert "wait for pods to end, add nodes, or ask for less" in ran.out
    assert ran.err == (
        "tessera: gangs are planned whole here; the scheduler of this release still places their "
        "pods one by one\n"
    )
