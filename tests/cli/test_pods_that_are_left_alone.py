"""The planner knows which pods the webhook leaves alone or refuses, in the webhook's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera

LEFT = "left alone: Tessera gives this pod no share"


def scheduled_by(name: str, **metadata: Any) -> dict[str, Any]:
    made = pod("p", **metadata)
    made["spec"]["schedulerName"] = name
    return made


def in_namespace(labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": "team", "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param(
            [scheduled_by("my-scheduler")],
            f"spec.schedulerName: my-scheduler: {LEFT}; leave it out, or write tessera-scheduler",
            id="scheduler",
        ),
        pytest.param(
            [pod("p", labels={"hami.io/webhook": "ignore"})],
            f"label hami.io/webhook=ignore: {LEFT}",
            id="label",
        ),
        pytest.param(
            [in_namespace({"hami.io/webhook": "ignore"}), pod("p", namespace="team")],
            f"label hami.io/webhook=ignore: {LEFT}",
            id="label-of-the-namespace",
        ),
        pytest.param(
            [pod("p", namespace="kube-system")],
            f"metadata.namespace: kube-system: {LEFT}; write another namespace",
            id="namespace",
        ),
    ],
)
def test_a_pod_that_the_webhook_leaves_alone_is_not_placed(
    tessera: Tessera, objects: list[dict[str, Any]], message: str
) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), *objects))
    (answer,) = ran.pods
    assert (answer["verdict"], answer["message"]) == ("ignored", message)
    assert (answer["dialect"], answer["cards"]) == ("hami", [])
    assert ran.status == 2, "it asks for a card and gets none"


@pytest.mark.parametrize("name", ["", "default-scheduler", "hami-scheduler", "volcano"])
def test_pods_of_schedulers_that_are_served_are_placed(tessera: Tessera, name: str) -> None:
    manifest = text(node(), scheduled_by(name))
    assert tessera("place", "-f", "-", "-o", "json", stdin=manifest).verdicts == {"p": "placed"}


def test_who_requests_for_nothing_may_be_anybodys(tessera: Tessera) -> None:
    idle = scheduled_by("my-scheduler")
    idle["spec"]["containers"][0]["resources"]["limits"] = {"cpu": 1}
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), idle))
    assert (ran.status, ran.pods[0]["message"]) == (0, "asks for no accelerator")


def test_one_of_our_schedulers_places_pods_of_every_namespace(tessera: Tessera) -> None:
    manifest = text(node(), scheduled_by("tessera-scheduler", namespace="kube-system"))
    assert tessera("place", "-f", "-", "-o", "json", stdin=manifest).verdicts == {"p": "placed"}


def test_a_new_pod_that_names_its_node_is_no_running_pod(tessera: Tessera) -> None:
    preset = pod("preset")
    preset["spec"]["nodeName"] = "n1"
    ran = tessera("place", "-f", "-", stdin=text(node(), preset, pod("p")))
    assert ran.status == 2
    assert "Pod preset: spec.nodeName: n1: without uid, status and annotations" in ran.err
    preset["status"] = {"phase": "Running"}
    assert tessera("place", "-f", "-", stdin=text(node(), preset, pod("p"))).status == 0


@pytest.mark.parametrize("name", ["nvidia.com/gpus", "amd.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_a_name_that_no_dialect_owns_is_no_success(tessera: Tessera, name: str) -> None:
    ran = tessera("place", "-f", "-", stdin=text(node(), pod("p", {name: 1})))
    assert ran.status == 2
    assert name in ran.out
    assert "asks for no accelerator" not in ran.out


def test_a_manifest_that_the_webhook_would_not_read_is_reported(tessera: Tessera) -> None:
    made = pod("p")
    made["spec"]["containers"][0]["args"] = ["x" * (600 << 10)]
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), made))
    assert ran.status == 2
    assert "refused when it is created: object: 601 KiB: a pod that asks for shares" in ran.err
    made["metadata"]["uid"] = "stored"
    assert tessera("place", "-f", "-", "-o", "json", stdin=text(node(), made)).status == 0


def test_what_a_namespace_allows_is_planned(tessera: Tessera) -> None:
    made = pod("p", namespace="team")
    made["spec"]["hostPID"] = True
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), made))
    assert ran.verdicts == {"p": "rejected"}
    allowing = in_namespace({"allow.tessera.dev/host-pid": "true"})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), allowing, made))
    assert ran.verdicts == {"p": "placed"}
    assert ran.status == 0
    wrong = in_namespace({"allow.tessera.dev/hostpid": "true"})
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), wrong, made))
    assert "did you mean allow.tessera.dev/host-pid?" in ran.err
