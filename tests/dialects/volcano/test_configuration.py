"""Names, switches, and the arguments of volcano-scheduler.conf in both spellings."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Dimension, QuotaUnit
from tessera_core.dialects.volcano import scheduler_config
from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import BadConfiguration, load
from tessera_schema.cards import MIB
from tessera_schema.requests import NodeOrder
from tessera_testing.builders import a_container, a_pod
from tests.dialects.volcano.setting import (
    MEMORY,
    NUMBER,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    accepted,
    made,
    vgpu,
)


def test_resource_names_are_configured() -> None:
    dialect = made(gpu_memory_resource="acme.com/mib")
    assert "acme.com/mib" in dialect.resources
    assert MEMORY not in dialect.resources
    answer = accepted(a_pod(a_container({"acme.com/mib": 5})), gpu_memory_resource="acme.com/mib")
    assert answer.changes["c0"].limits == {"acme.com/mib": "5"}


@pytest.mark.parametrize("prefix", ["predicate", "deviceshare"])
def test_the_arguments_of_old_and_new_plugins_mean_the_same(prefix: str) -> None:
    dialect = made(
        arguments={
            f"{prefix}.GPUSharingEnable": True,
            f"{prefix}.GPUNumberEnable": "false",
            f"{prefix}.VGPUEnable": True,
            f"{prefix}.NodeLockEnable": True,
            f"{prefix}.SchedulePolicy": "spread",
            f"{prefix}.ScheduleWeight": 10,
        }
    )
    assert MEMORY in dialect.resources
    assert NUMBER not in dialect.resources
    answer = accepted(
        a_pod(vgpu(1)),
        arguments={f"{prefix}.SchedulePolicy": "spread", f"{prefix}.ScheduleWeight": 10},
    )
    assert answer.containers[0].requests[0].policy.node is NodeOrder.SPREAD


def a_conf(*plugins: dict[str, object]) -> dict[str, object]:
    """volcano-scheduler.conf as installations have it."""
    return {
        "actions": "enqueue, allocate, backfill",
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [*plugins]}],
    }


@pytest.mark.parametrize(
    ("plugin", "prefix"), [("predicates", "predicate"), ("deviceshare", "deviceshare")]
)
def test_a_schedulers_own_file_is_read_in_both_spellings(plugin: str, prefix: str) -> None:
    conf = a_conf(
        {
            "name": plugin,
            "arguments": {
                f"{prefix}.GPUSharingEnable": True,
                f"{prefix}.GPUNumberEnable": "false",
                f"{prefix}.SchedulePolicy": "spread",
                f"{prefix}.ScheduleWeight": 10,
            },
        }
    )
    dialect = made(scheduler_conf=conf)
    assert MEMORY in dialect.resources
    assert NUMBER not in dialect.resources
    policy = accepted(a_pod(vgpu(1)), scheduler_conf=conf).containers[0].requests[0].policy
    assert policy.node is NodeOrder.SPREAD


def test_what_belongs_to_another_in_a_schedulers_file_is_reported() -> None:
    conf = a_conf(
        {"name": "drf"},
        {
            "name": "deviceshare",
            "arguments": {
                "deviceshare.VGPUEnable": True,
                "deviceshare.GPUExclusiveRules": [],
                "deviceshare.ScheduleWeight": "10",
                "deviceshare.NodeLockEnable": True,
            },
        },
        {"name": "binpack", "arguments": {"binpack.weight": 10}},
    )
    reported = made(scheduler_conf=conf).warnings
    assert [w for w in reported if "priority, gang, drf, binpack" in w]
    assert [w for w in reported if "enqueue, allocate, backfill" in w]
    assert [w for w in reported if "GPUExclusiveRules" in w]
    assert [w for w in reported if "deviceshare.ScheduleWeight" in w]
    assert len(reported) == 4


@pytest.mark.parametrize(
    ("actions", "plugins", "said"),
    [
        ("enqueue, allocate, backfill", (), ["neither preempt nor reclaim"]),
        ("allocate,preempt", (), ["has preempt: pods are evicted", "TESSERA_PREEMPTION_MODE=on"]),
        ("allocate, gangpreempt, gangreclaim", (), ["has gangpreempt", "has gangreclaim",
                                                    "TESSERA_PREEMPTION_RECLAIM=true"]),
        ("preempt, reclaim", ("gang", "capacity"), ["has gang: gangs start whole",
                                                    "has capacity: queues are followed"]),
        ("", (), []),
    ],
)  # fmt: skip
def test_its_switches_are_named_that_do_the_same_here(
    actions: str, plugins: tuple[str, ...], said: list[str]
) -> None:
    tiers = [{"plugins": [{"name": name} for name in plugins]}]
    settings = scheduler_config.read({"actions": actions, "tiers": tiers}).settings
    assert all(any(text in each for each in settings) for text in said)
    assert bool(settings) is bool(said)


def test_the_new_plugin_goes_before_the_old_one_and_the_option_before_both() -> None:
    conf = a_conf(
        {"name": "deviceshare", "arguments": {"deviceshare.GPUNumberEnable": False}},
        {"name": "predicates", "arguments": {"predicate.GPUNumberEnable": True}},
    )
    assert NUMBER not in made(scheduler_conf=conf).resources
    dialect = made(scheduler_conf=conf, arguments={"deviceshare.GPUNumberEnable": True})
    assert NUMBER in dialect.resources


def test_what_is_reported_of_a_configuration_is_reported_where_pods_are_planned() -> None:
    registry = load({"volcano": {"scheduler_conf": a_conf({"name": "drf"})}})
    planner = Planner(registry, Cluster())
    assert any("drf" in warning for warning in planner.warnings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"arguments": {"deviceshare.GPUSharing": True}}, "GPUSharing", id="unknown"),
        pytest.param({"arguments": {"GPUSharingEnable": True}}, "GPUSharingEnable", id="no-prefix"),
        pytest.param(
            {"arguments": {"deviceshare.GPUExclusiveRules": []}}, "GPUExclusiveRules", id="rules"
        ),
        pytest.param(
            {"arguments": {"deviceshare.VGPUEnable": "maybe"}}, "true or false", id="no-truth"
        ),
        pytest.param(
            {"arguments": {"deviceshare.ScheduleWeight": "10"}}, "ScheduleWeight", id="text"
        ),
        pytest.param({"scheduler_conf": {"tiers": 1}}, "scheduler_conf", id="no-file"),
        pytest.param({"schedule_policy": "best"}, "schedule_policy", id="policy"),
        pytest.param({"gpu_memory_factor": 0}, "gpu_memory_factor", id="factor"),
        pytest.param({"no_such_option": 1}, "no_such_option", id="unknown-option"),
        pytest.param({"gpu_memory_resource": NUMBER}, "configured twice", id="one-name-twice"),
        pytest.param({"gpu_memory_resource": ""}, "empty", id="no-name"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(
    options: dict[str, object], said: str
) -> None:
    with pytest.raises(BadConfiguration, match=r"dialects\.volcano") as refused:
        load({"volcano": options})
    assert said in str(refused.value)


def test_quota_counts_in_the_units_of_each_name() -> None:
    quota = made(gpu_memory_factor=10, vgpu_memory_factor=5).quota
    assert quota == {
        MEMORY: QuotaUnit(Dimension.MEMORY, 10 * MIB),
        NUMBER: QuotaUnit(Dimension.CARDS),
        VGPU_NUMBER: QuotaUnit(Dimension.CARDS),
        VGPU_MEMORY: QuotaUnit(Dimension.MEMORY, 5 * MIB),
        VGPU_CORES: QuotaUnit(Dimension.CORES),
    }
