"""Pods that request cards by an annotation alone come to the webhook, and get a resource name by
which kube-scheduler and kubelet know them."""

from __future__ import annotations

from tessera_scheduler.webhook import match_conditions
from tests.webhook.setting import REGISTRY, a_manifest, admitted, mutated, patch_of, validated

NOTES = {"gpu-fraction": "0.5", "kai.scheduler/example": "1"}


def test_the_api_server_sends_them() -> None:
    condition = match_conditions.names_us(REGISTRY)
    assert 'k in ["gpu-fraction", "gpu-memory"]' in condition
    assert '"tessera.dev/gpu-fraction"' in condition


def test_a_container_without_resources_gets_one() -> None:
    pod = a_manifest({}, notes=NOTES, schedulerName="kai-scheduler")
    del pod["spec"]["containers"][0]["resources"]
    done = admitted(pod)
    amounts = {"tessera.dev/gpu-fraction": "1"}
    assert done["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}
    assert patch_of(mutated(done)) == []
    assert validated(done).allowed


def test_what_can_never_run_is_refused() -> None:
    answer = mutated(a_manifest({}, notes={"gpu-fraction": "2"}, schedulerName="kai-scheduler"))
    assert not answer.allowed
    assert answer.status is not None
    assert "metadata.annotations[gpu-fraction]: 2: write a part of a card" in answer.status.message


def test_other_pods_with_such_an_annotation_are_left_alone() -> None:
    assert patch_of(mutated(a_manifest({}, notes={"gpu-memory": "2000"}))) == []
