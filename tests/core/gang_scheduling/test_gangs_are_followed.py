"""The registry follows pods and PodGroups: what changes a gang, and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_schema.kube import ContainerState, ContainerStatus, Pod
from tests.core.gang_scheduling.gang_pods import requests_cards
from tests.core.gangs.setting import a_group, a_member

GANG = a_group("g", minMember=1)


def _follows(pod: Pod) -> GangRegistry:
    registry = GangRegistry(requests_cards)
    registry.put_group(GANG)
    registry.put_pod(pod)
    registry.changed.clear()
    return registry


def _with(pod: Pod, part: str, **fields: Any) -> Pod:
    return replace(pod, **{part: replace(getattr(pod, part), **fields)})


def test_what_kubelet_reports_of_a_pod_that_runs_does_not_change_its_gang() -> None:
    pod = a_member("p", "g")
    registry = _follows(pod)
    status = (ContainerStatus(name="c", state=ContainerState()),)
    reported = _with(pod, "status", container_statuses=status)
    reported = _with(reported, "metadata", resource_version="2")
    registry.put_pod(reported)
    assert not registry.changed
    assert registry.pod(pod.metadata.uid) is reported


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("spec", {"node_name": "n1"}),
        ("spec", {"priority": 7}),
        ("status", {"phase": "Failed"}),
        ("metadata", {"deletion_timestamp": "2026-01-01T00:00:00Z"}),
        ("metadata", {"labels": {"a": "b"}}),
    ],
)
def test_what_placement_reads_changes_its_gang(part: str, fields: dict[str, Any]) -> None:
    pod = a_member("p", "g")
    registry = _follows(pod)
    registry.put_pod(_with(pod, part, **fields))
    assert registry.changed == {GANG.id}


def test_a_pod_that_comes_back_changes_its_gang() -> None:
    pod = a_member("p", "g")
    registry = _follows(pod)
    registry.drop_pod(pod.metadata.uid)
    registry.changed.clear()
    registry.put_pod(pod)
    assert registry.changed == {GANG.id}
    assert len(registry.bundle(GANG.id).waiting) == 1
