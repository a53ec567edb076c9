"""A rollout is over when all replicas are ready, so all of them must come to that, whichever leads;
and meanwhile somebody has to answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.manifests import (
    COMPONENTS,
    Container,
    Json,
    combined,
    containers,
    environment,
    named,
    overlay,
)  # fmt: skip

STANDING_BY = "/warmz"
"""What a replica that does not lead answers, too."""
SEVERAL = ("production",)
ONE = ("dev", "single-node")


def scheduler(objects: list[Json]) -> Json:
    (found,) = named(objects, "Deployment", "tessera-scheduler")
    spec: Json = found["spec"]
    return spec


def its_containers(objects: list[Json]) -> dict[str, Container]:
    (found,) = named(objects, "Deployment", "tessera-scheduler")
    return {c.spec["name"]: c for c in containers([found])}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_replica_that_stands_by_becomes_ready(name: str) -> None:
    objects = overlay(name)
    there = its_containers(objects)
    assert scheduler(objects)["replicas"] > 1
    assert "until-it-leads" not in there
    service = there["scheduler"].spec
    for probe in ("startupProbe", "readinessProbe"):
        assert service[probe]["httpGet"]["path"] == STANDING_BY
    assert "readinessProbe" not in there["kube-scheduler"].spec
    assert "progressDeadlineSeconds" not in scheduler(objects)


@pytest.mark.parametrize("name", SEVERAL)
def test_its_kube_scheduler_stands_for_the_lease_that_its_service_holds(name: str) -> None:
    objects = overlay(name)
    there = its_containers(objects)
    env = environment(there["scheduler"], objects)
    assert env["TESSERA_GATE_ENABLED"] == "true"
    assert env["TESSERA_GATE_POD_UID"] == "metadata.uid"
    neighbour = there["kube-scheduler"]
    assert environment(neighbour, objects)["POD_NAME"] == env["TESSERA_INSTANCE"] == "metadata.name"
    assert {
        "--leader-elect=true", "--leader-elect-resource-name=$(POD_NAME)",
        "--leader-elect-resource-namespace=tessera-system",
    } <= set(neighbour.spec["command"])  # fmt: skip
    alone = its_containers(overlay("dev"))["kube-scheduler"].spec["command"]
    assert [f for f in alone if "--leader-elect" not in f] == [
        f for f in neighbour.spec["command"] if "--leader-elect" not in f
    ]
    (role,) = named(objects, "Role", "tessera-scheduler-gates")
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}
    ]


@pytest.mark.parametrize("name", SEVERAL)
def test_of_several_one_is_always_there(name: str) -> None:
    objects = overlay(name)
    rolling = scheduler(objects)["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}
    for kind in ("Deployment", "StatefulSet"):
        for item in named(objects, kind):
            budgets = named(objects, "PodDisruptionBudget", item["metadata"]["name"])
            assert [b["spec"]["maxUnavailable"] for b in budgets] == (
                [1] if item["spec"]["replicas"] > 1 else []
            ), item["metadata"]["name"]
            for budget in budgets:
                labels = item["spec"]["template"]["metadata"]["labels"]
                assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", ONE)
def test_of_one_the_old_goes_before_the_new_can_lead(name: str) -> None:
    objects = overlay(name)
    there = its_containers(objects)
    assert scheduler(objects)["replicas"] == 1
    assert scheduler(objects)["strategy"]["rollingUpdate"]["maxUnavailable"] == "100%"
    assert "--leader-elect=false" in there["kube-scheduler"].spec["command"]
    assert "until-it-leads" in there
    assert "TESSERA_GATE_ENABLED" not in environment(there["scheduler"], objects)


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_the_first_replica_of_all_need_not_wait(name: str) -> None:
    (lease,) = named(overlay(name), "Lease", "tessera-scheduler")
    assert (
        "spec" not in lease
    )  # never held: nobody is waited for, and applying takes it from no one


def test_components_leave_that_as_it_is(tmp_path: Path) -> None:
    there = its_containers(combined(tmp_path, COMPONENTS))
    assert there["scheduler"].spec["readinessProbe"]["httpGet"]["path"] == STANDING_BY
    assert "until-it-leads" not in there
