"""Kinds that make pods or hold cards are planned by their templates, or said to be missing: none is
"not needed for planning"."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
PLAIN = {"spec": pod("x", {"cpu": 1})["spec"]}


def made(api: str, kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": api, "kind": kind, "spec": spec,
        "metadata": {"name": "w", "namespace": "team", **metadata},
    }  # fmt: skip


def roles(**replicas: int | None) -> dict[str, Any]:
    return {role: {"replicas": n, "template": TEMPLATE} for role, n in replicas.items()}


RAY = {
    "headGroupSpec": {"rayStartParams": {}, "template": PLAIN},
    "workerGroupSpecs": [
        {"groupName": "a100", "replicas": 2, "template": TEMPLATE},
        {"groupName": "t4", "minReplicas": 1, "maxReplicas": 4, "template": TEMPLATE},
        {"groupName": "none", "template": TEMPLATE},
    ],
}
RAY_PODS = ["w-head-0", "w-a100-0", "w-a100-1", "w-t4-0"]
TASKS = {"tasks": [{"name": "a", "replicas": 2, "template": TEMPLATE}]}
JOBS = {"replicatedJobs": [
    {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
    {"name": "ps", "template": {"spec": {"template": TEMPLATE}}},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "names"),
    [
        pytest.param(
            made("kubeflow.org/v1", "PyTorchJob",
                 {"pytorchReplicaSpecs": roles(Master=1, Worker=2)}),
            ["w-master-0", "w-worker-0", "w-worker-1"], id="pytorch",
        ),
        pytest.param(
            made("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": roles(PS=None, Worker=1)}),
            ["w-ps-0", "w-worker-0"], id="tensorflow",
        ),
        pytest.param(
            made("kubeflow.org/v1", "XGBoostJob", {"xgbReplicaSpecs": roles(Master=1)}),
            ["w-master-0"], id="xgboost",
        ),
        pytest.param(
            made("kubeflow.org/v1", "PaddleJob", {"paddleReplicaSpecs": roles(Worker=2)}),
            ["w-worker-0", "w-worker-1"], id="paddle",
        ),
        pytest.param(
            made("kubeflow.org/v2beta1", "MPIJob", {
                "slotsPerWorker": 2, "mpiReplicaSpecs": roles(Launcher=1, Worker=2)}),
            ["w-launcher-0", "w-worker-0", "w-worker-1"], id="mpi",
        ),
        pytest.param(
            made("kubeflow.org/v1", "PyTorchJob", {
                "runPolicy": {"suspend": True}, "pytorchReplicaSpecs": roles(Master=1)}),
            [], id="suspended",
        ),
        pytest.param(made("kubeflow.org/v1", "Notebook", {"template": TEMPLATE}), ["w-0"],
                     id="notebook"),
        pytest.param(made("ray.io/v1", "RayCluster", RAY), RAY_PODS, id="ray-cluster"),
        pytest.param(made("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}), RAY_PODS, id="ray-job"),
        pytest.param(made("ray.io/v1", "RayService", {"rayClusterConfig": RAY}), RAY_PODS,
                     id="ray-service"),
        pytest.param(
            made("batch.volcano.sh/v1alpha1", "CronJob", {"jobTemplate": {"spec": TASKS}}),
            ["w-a-0", "w-a-1"], id="cron-tasks",
        ),
        pytest.param(
            made("jobset.x-k8s.io/v1alpha2", "JobSet", JOBS),
            ["w-w-0-0", "w-w-0-1", "w-w-1-0", "w-w-1-1", "w-ps-0-0"], id="job-set",
        ),
        pytest.param(
            made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {
                "replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}}),
            ["w-0", "w-1", "w-0-1", "w-0-2", "w-1-1", "w-1-2"], id="leaders-and-workers",
        ),
        pytest.param(
            made("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, "template": TEMPLATE}),
            ["w-0", "w-1"], id="rollout",
        ),
        pytest.param(
            made("apps.kruise.io/v1alpha1", "CloneSet", {"template": TEMPLATE}), ["w-0"],
            id="clone-set",
        ),
    ],
)  # fmt: skip
def test_pods_of_templates_are_planned(
    tessera: Tessera, workload: dict[str, Any], names: list[str]
) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(cards=4), workload))
    assert ran.status == 0, ran.err
    assert [(p["namespace"], p["name"]) for p in ran.pods] == [("team", n) for n in names]
    assert "skipped" not in ran.err


UNREAD = [
    made("argoproj.io/v1alpha1", "Workflow", {"templates": [{"name": "a", "container": {}}]}),
    made("serving.knative.dev/v1", "Service", {"template": TEMPLATE}),
    made("example.com/v1", "Fleet", {"groups": [{"pods": {"template": TEMPLATE}}]}),
]


@pytest.mark.parametrize("workload", UNREAD, ids=lambda w: str(w["kind"]))
def test_kinds_whose_pods_are_not_read_make_the_plan_incomplete(
    tessera: Tessera, workload: dict[str, Any]
) -> None:
    ran = tessera("place", "-f", "-", stdin=text(node(), pod(), workload))
    kind = workload["kind"]
    one = f"tessera: 1 object of kind {kind} makes pods that are not read: the plan is incomplete\n"
    assert (ran.status, ran.err) == (2, one)
    again = {**workload, "metadata": {"name": "v"}}
    ran = tessera("place", "-f", "-", stdin=text(node(), pod(), workload, again))
    assert f"2 objects of kind {kind} make pods that are not read" in ran.err


def test_those_of_a_dump_are_there_themselves(tessera: Tessera) -> None:
    live = [{**w, "metadata": {"name": "w", "uid": f"{i}"}} for i, w in enumerate(UNREAD)]
    ran = tessera("place", "-f", "-", stdin=text(node(), pod(), *live))
    assert ran.status == 0
    assert "skipped, not needed for planning: 1 Fleet, 1 Service, 1 Workflow" in ran.err


def test_templates_for_others_make_no_pods(tessera: Tessera) -> None:
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}}
    ran = tessera("place", "-f", "-", stdin=text(node(), pod(), {**template, "template": TEMPLATE}))
    assert ran.status == 0


def test_a_claim_that_holds_devices_makes_the_plan_incomplete(tessera: Tessera) -> None:
    claim = made("resource.k8s.io/v1", "ResourceClaim", {"devices": {}}, uid="c")
    assert tessera("place", "-f", "-", stdin=text(node(), pod(), claim)).status == 0
    claim["status"] = {"allocation": {"devices": {"results": []}}}
    ran = tessera("place", "-f", "-", stdin=text(node(), pod(), claim))
    assert ran.status == 2
    assert "1 object of kind ResourceClaim holds devices that are not read" in ran.err


def test_a_rollout_of_another_objects_template_is_a_gap(tessera: Tessera) -> None:
    other = {"workloadRef": {"kind": "Deployment", "name": "d"}}
    rollout = made("argoproj.io/v1alpha1", "Rollout", other)
    ran = tessera("place", "-f", "-", stdin=text(node(), pod(), rollout))
    assert ran.status == 2
    assert "Rollout team/w: spec.workloadRef: the pods that it makes" in ran.err


def test_copies_of_groups_beyond_belief_are_cut_off(tessera: Tessera) -> None:
    many = made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [
        {"name": "a", "replicas": 2**40, "template": {"spec": {"template": PLAIN}}}]})  # fmt: skip
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), many))
    assert len(ran.pods) == 1000
    assert f"{2**40} copies: only 1000 of one workload are planned" in ran.err


# -- reservations

NODE = node("k", 0)
DEVICE = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "k"},
    "spec": {"devices": [
        {"type": "gpu", "id": f"GPU-{i}", "minor": i, "health": True, "resources": {
            "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi",
            "koordinator.sh/gpu-memory-ratio": "100",
        }} for i in (0, 1)
    ]},
}  # fmt: skip
WHOLE = {"koordinator.sh/gpu": "100"}
ALLOCATED = json.dumps({"gpu": [{"minor": 0, "id": "GPU-0", "resources": {
    "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi",
    "koordinator.sh/gpu-memory-ratio": "100"}}]})  # fmt: skip


def reservation(**status: Any) -> dict[str, Any]:
    held = pod("x", WHOLE)["spec"] | {"schedulerName": "koord-scheduler"}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "later", "uid": "r", "annotations": {
            "scheduling.koordinator.sh/device-allocated": ALLOCATED}},
        "spec": {"template": {"spec": held}, "owners": []}, "status": status,
    }  # fmt: skip


def test_a_reservation_holds_its_cards(tessera: Tessera) -> None:
    holds = reservation(phase="Available", nodeName="k")
    two = pod("two", {"koordinator.sh/gpu": "200"}, labels={"a": "b"})
    manifest = text(NODE, DEVICE, holds, two)
    ran = tessera("place", "-f", "-", "--cards", "-o", "json", stdin=manifest)
    assert ran.verdicts == {"two": "waiting"}
    first, second = json.loads(ran.out)["nodes"][0]["cards"]
    assert [(h["name"], h["memory_mib"], h["by"]) for h in first["holders"]] == [
        ("reservation:later", 16384, "annotations")
    ]
    assert second["holders"] == []
    assert "skipped" not in ran.err


def test_a_reservation_that_is_over_holds_nothing(tessera: Tessera) -> None:
    over = reservation(phase="Succeeded", nodeName="k")
    one = pod("one", {"koordinator.sh/gpu": "200"})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(NODE, DEVICE, over, one))
    assert ran.verdicts == {"one": "placed"}


@pytest.mark.parametrize(
    ("status", "reported"),
    [
        ({"phase": "Pending"}, "it waits for a place itself"),
        ({}, "it waits for a place itself"),
        ({"phase": "Available", "nodeName": "k", "currentOwners": [{"name": "p"}]}, "pods use it"),
    ],
)
def test_what_is_not_clear_of_a_reservation_is_a_gap(
    tessera: Tessera, status: dict[str, Any], reported: str
) -> None:
    ran = tessera("place", "-f", "-", stdin=text(NODE, DEVICE, reservation(**status)))
    assert ran.status == 2
    assert f"Reservation later: {reported}" in ran.err
