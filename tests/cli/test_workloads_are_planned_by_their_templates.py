from __future__ import annotations

from typing import Any

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera

GROUPS = {
    "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
    "ReplicationController": "v1",
}  # fmt: skip


def workload(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    inner = {"template": template, **spec}
    return {
        "apiVersion": GROUPS[kind],
        "kind": kind,
        "metadata": {"name": "w", "namespace": "team", **metadata},
        "spec": {"jobTemplate": {"spec": inner}} if kind == "CronJob" else inner,
    }


@pytest.mark.parametrize(
    ("kind", "spec", "names"),
    [
        pytest.param("Deployment", {}, ["w-0"], id="one-by-default"),
        pytest.param("Deployment", {"replicas": 3}, ["w-0", "w-1", "w-2"], id="replicas"),
        pytest.param("Deployment", {"replicas": 0}, [], id="none"),
        pytest.param("Deployment", {"replicas": None}, ["w-0"], id="null"),
        pytest.param("ReplicaSet", {"replicas": 2}, ["w-0", "w-1"], id="replica-set"),
        pytest.param("ReplicationController", {"replicas": 1}, ["w-0"], id="controller"),
        pytest.param("StatefulSet", {"replicas": 2}, ["w-0", "w-1"], id="stateful"),
        pytest.param(
            "StatefulSet", {"replicas": 2, "ordinals": {"start": 5}}, ["w-5", "w-6"], id="ordinals"
        ),
        pytest.param("Job", {}, ["w-0"], id="job"),
        pytest.param("Job", {"parallelism": 2, "completions": 9}, ["w-0", "w-1"], id="parallel"),
        pytest.param("Job", {"parallelism": 9, "completions": 1}, ["w-0"], id="completions"),
        pytest.param("Job", {"parallelism": 2, "suspend": True}, [], id="suspended"),
        pytest.param("CronJob", {"parallelism": 2}, ["w-0", "w-1"], id="cron-job"),
        pytest.param("DaemonSet", {}, [], id="daemon-set"),
    ],
)
def test_so_many_pods_are_planned(
    tessera: Tessera, kind: str, spec: dict[str, Any], names: list[str]
) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), workload(kind, spec)))
    assert ran.status == 0
    assert [(p["namespace"], p["name"]) for p in ran.pods] == [("team", n) for n in names]


def test_a_daemon_set_is_reported_to_be_left_out(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", stdin=text(node(), workload("DaemonSet", {})))
    assert "DaemonSet team/w: a DaemonSet makes a pod for every node and is not planned" in ran.err


def test_tasks_of_a_batch_job_have_templates_of_their_own(tessera: Tessera) -> None:
    template = {"spec": pod()["spec"]}
    tasks = [
        {"name": "ps", "replicas": 1, "template": template},
        {"replicas": 2, "template": template},
    ]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvailable": 3, "tasks": tasks},
    }
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), job))
    assert list(ran.verdicts) == ["j-ps-0", "j-default1-0", "j-default1-1"]
    assert ran.gangs["volcano/default/j"]["min"] == 3


@pytest.mark.parametrize(
    ("least", "placed", "never"), [(6, 0, True), (5, 5, False), (2, 5, False), (None, 0, True)]
)
def test_a_gang_that_can_never_start_is_reported(
    tessera: Tessera, least: int | None, placed: int, *, never: bool
) -> None:
    """Without `minAvailable` all pods are needed, as Volcano has it."""
    spec = pod(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})["spec"]
    tasks = [{"name": "w", "replicas": 6, "template": {"spec": spec}}]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"minAvailable": least, "tasks": tasks},
    }  # fmt: skip
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(cards=1), job))
    assert list(ran.verdicts.values()).count("placed") == placed
    gang = ran.gangs["volcano/default/j"]
    assert (gang["verdict"] == "rejected") is never
    assert ("Job j: spec.minAvailable" in gang["remedy"]) is never


def test_a_dump_does_not_plan_pods_twice(tessera: Tessera) -> None:
    live = workload("Deployment", {"replicas": 2}, uid="6f0c")
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), live, pod("w-abc")))
    assert ran.verdicts == {"w-abc": "placed"}
    assert "Deployment w: in the cluster already, so are the pods" in ran.err


def test_copies_beyond_belief_are_cut_off(tessera: Tessera) -> None:
    many = workload("Deployment", {"replicas": 2_000_000})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), many))
    assert (ran.status, len(ran.pods)) == (2, 1000)
    assert "2000000 copies: only 1000 of one workload are planned" in ran.err


@pytest.mark.parametrize(
    ("kind", "spec", "reported"),
    [
        pytest.param(
            "Deployment", {"replicas": "3"}, 'spec.replicas: "3": write a whole number', id="text"
        ),
        pytest.param("Job", {"parallelism": -1}, "spec.parallelism: -1: write", id="negative"),
        pytest.param("Job", {"template": None}, "spec.template: missing: write", id="no-template"),
        pytest.param(
            "StatefulSet",
            {"ordinals": {"start": True}},
            "spec.ordinals.start: true: write",
            id="boolean",
        ),
        pytest.param(
            "Deployment",
            {"template": {"spec": {"containers": {"a": 1}}}},
            "spec.template.spec.containers: a mapping: write a list",
            id="containers-as-a-mapping",
        ),
        pytest.param(
            "CronJob",
            {"replicas": 1, "template": {"spec": {"containers": []}}},
            "spec.containers: none: write at least one container",
            id="no-containers",
        ),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(
    tessera: Tessera, kind: str, spec: dict[str, Any], reported: str
) -> None:
    ran = tessera("place", "-f", "-", stdin=text(node(), workload(kind, spec)))
    assert (ran.status, ran.out) == (1, "")
    assert f"{kind} team/w: {reported}" in ran.err
