"""Signs of gangs and queues are met with a warning (K8)."""

from __future__ import annotations

import pytest

from tessera_core.admission import pod_groups
from tessera_schema.kube import Pod, SchedulingGroup
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.volcano.setting import accepted, memory, number, vgpu

K8S, VOLCANO = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"


@pytest.mark.parametrize(
    ("annotations", "group"),
    [
        pytest.param({K8S: "k8s-pg", VOLCANO: "volcano-pg"}, "ns/k8s-pg", id="K8"),
        pytest.param({VOLCANO: "volcano-pg"}, "ns/volcano-pg", id="volcano-alone"),
        pytest.param({}, "", id="none"),
    ],
)
def test_the_name_of_kubernetes_wins(annotations: dict[str, str], group: str) -> None:
    pod = a_pod(memory(1), namespace="ns", annotations=annotations)
    assert pod_groups.group_of(pod) == group


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        pytest.param(a_pod(memory(1), annotations={K8S: "pg"}), "default/pg", id="gpushare"),
        pytest.param(a_pod(number(1), annotations={VOLCANO: "pg"}), "default/pg", id="number"),
        pytest.param(a_pod(vgpu(1), annotations={VOLCANO: "pg"}), "default/pg", id="vgpu"),
        pytest.param(
            a_pod(memory(1), annotations={"scheduling.volcano.sh/group-min-member": "4"}),
            "group-min-member",
            id="minimum",
        ),
        pytest.param(
            a_pod(memory(1), labels={"volcano.sh/job-name": "train"}), "train", id="label"
        ),
        pytest.param(
            a_pod(
                a_container({"nvidia.com/gpu": 1}), labels={"scheduling.x-k8s.io/pod-group": "g"}
            ),
            "default/g",
            id="another dialect's pod",
        ),
        pytest.param(
            a_pod(memory(1), scheduling_group=SchedulingGroup(pod_group_name="own")),
            "default/own",
            id="Kubernetes' own field",
        ),
    ],
)
def test_a_gang_learns_that_nobody_waits_for_it(pod: Pod, said: str) -> None:
    (warning,) = plan([pod], [])[0].warnings
    assert said in warning
    assert "one by one" in warning


def test_queues_and_the_card_policy_of_groups_are_reported() -> None:
    queue = a_pod(memory(1), annotations={"scheduling.volcano.sh/queue-name": "q1"})
    assert "q1" in plan([queue], [])[0].warnings[0]
    policy = a_pod(vgpu(1), annotations={"volcano.sh/vgpu-podgroup-policy": "spread"})
    assert "vgpu-podgroup-policy" in accepted(policy).warnings[0]
