"""What is published of containers: on the bus, in events of the pod, in traces and metrics."""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tessera_agent.usage.settings import UsageSettings
from tessera_core.dialect_kit.readings import ProcessReading
from tessera_core.hook.records import padded
from tessera_kubelet.nri.types import Adjustment
from tessera_runtime.tracing.tracing import TelemetrySettings, open_telemetry
from tessera_schema.cards import MIB
from tessera_schema.messages.allocation_events import (
    AllocationPrepared,
    AllocationRunning,
    decode_event,
)
from tessera_schema.messages.device_reports import NodeUsage, decode_device, decode_usage
from tests.agent.nri.runtime_node import (
    NODE,
    TRACE,
    Node,
    a_grant,
    a_node,
    a_pod,
    a_share,
    granted,
    looks,
    metric,
    signed,
    until,
)
from tests.agent.usagefile import a_usage

USAGE = f"tessera.v1.default.usage.{NODE}"


async def test_prepared_and_running_are_published_in_the_pods_trace(tmp_path: Path) -> None:
    fields = {
        "namespace": "team", "uid": "uid-job", "name": "job", "node": NODE, "container": "main",
    }  # fmt: skip
    async with a_node(tmp_path) as node, node.agent():
        await node.run(granted("job", a_share()))
        await until(lambda: len(node.bus.said("*.*.*.allocation.>")) == 2)
        prepared, running = node.bus.said("*.*.*.allocation.>")
        assert prepared.subject == "tessera.v1.default.allocation.team.uid-job.prepared"
        assert decode_event(prepared.data) == AllocationPrepared(**fields)
        assert decode_event(running.data) == AllocationRunning(**fields)
        assert {prepared.envelope.traceparent, running.envelope.traceparent} == {TRACE}


async def test_an_agent_that_starts_publishes_what_runs_already(tmp_path: Path) -> None:
    """The message of one that was killed may be lost with it."""
    async with a_node(tmp_path) as node:
        async with node.agent():
            await node.run(granted("job", a_share()))
        before = len(node.bus.said("*.*.*.allocation.>"))
        async with node.agent():
            await until(lambda: len(node.bus.said("*.*.*.allocation.>")) == before + 1)
        [found] = node.bus.said("*.*.*.allocation.>")[before:]
        assert decode_event(found.data) == AllocationRunning(
            namespace="team", uid="uid-job", name="job", node=NODE, container="main"
        )
        assert found.envelope.traceparent == TRACE


async def test_use_is_published_every_few_seconds(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(granted("job", a_share(mib=4096)))
        file = usage_file(given)
        card = {"uuid": padded("GPU-0", 64), "charged_bytes": 100 * MIB, "last_launch_ns": 1}
        overwrite(file, bytes(a_usage(card)))
        await looks(agent, 3)
        usage = decode_usage(node.bus.said(USAGE)[-1].data)
        [use] = usage.containers
        assert (use.pod, use.container, use.enforced) == ("job", "main", True)
        assert use.cards[0].memory_limit_bytes == 4096 * MIB
        assert {load.card for load in usage.cards} == {"GPU-0", "GPU-1"}
        labels = 'card="GPU-0",container="main",namespace="team",pod="job"'
        line = f"tessera_agent_container_memory_limit_bytes{{{labels}}}"
        await until(lambda: metric(agent, line) == 4096 * MIB)


async def test_an_agent_that_ends_publishes_what_it_measured(tmp_path: Path) -> None:
    seen: list[NodeUsage] = []

    async def cancelled(node: Node) -> None:
        async with node.agent(usage=UsageSettings(interval_s=0.05, publish_s=15)) as agent:
            await looks(agent, 3)
            assert agent.measurement.latest is not None
            seen.append(agent.measurement.latest)
            raise asyncio.CancelledError

    async with a_node(tmp_path) as node:
        with pytest.raises(asyncio.CancelledError):
            await cancelled(node)
        first, last = (decode_usage(message.data) for message in node.bus.said(USAGE))
        assert first.at < seen[0].at <= last.at


async def test_the_way_of_a_pod_is_one_trace(tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    telemetry = open_telemetry("agent", TelemetrySettings(), exporter=seen)
    async with telemetry, a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(granted("job", a_share()))
        card = {"uuid": padded("GPU-0", 64), "last_launch_ns": 1_000_000_000}
        overwrite(usage_file(given), bytes(a_usage(card)))
        await looks(agent, 4)
    spans = {span.name.removeprefix("tessera.agent."): span for span in seen.get_finished_spans()}
    assert list(spans) == ["prepare", "start", "first_usage"]
    for span in spans.values():
        assert span.context is not None
        assert span.parent is not None
        assert f"{span.context.trace_id:032x}" == TRACE.split("-")[1]
        assert f"{span.parent.span_id:016x}" == TRACE.split("-")[2]


async def test_limits_that_do_not_hold_are_an_event_of_the_pod(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(pod)
        usage = usage_file(given)
        usage.write_bytes(b"what the tenant thinks")
        await until(lambda: node.events("LimitsNotEnforced"))
        assert "usage-file-bad" in node.events("LimitsNotEnforced")[0]
        await looks(agent, 3)
        line = 'tessera_agent_alarms_total{what="LimitsNotEnforced"}'
        assert metric(agent, line) == 1  # it is reported when it begins, not at each measurement


async def test_a_process_without_the_hook_is_reported(tmp_path: Path) -> None:
    """Its pid leads to the container through its ancestors."""
    pod = granted("job", a_share())
    proc = tmp_path / "proc"
    for pid, parent in ((700, 600), (600, 1)):
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "stat").write_text(f"{pid} (python) S {parent} 0 0 0")
    usage = UsageSettings(interval_s=0.05, publish_s=0.05, proc_folder=str(proc))
    async with a_node(tmp_path) as node, node.agent(usage=usage):
        await node.create(pod)
        await node.start(pod, pid=600)
        node.reader.run(0, ProcessReading(pid=700, memory_bytes=900 * MIB))
        await until(lambda: node.events("LimitsNotEnforced"))
        assert "no-hook" in node.events("LimitsNotEnforced")[0]


async def test_a_pod_that_is_gone_and_runs_on_still_holds_its_cards(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        uid = await node.show_pod("job")
        grant = a_grant("job", a_share(), uid=uid, namespace="default")
        pod = a_pod("job", signed(grant), uid=uid, namespace="default")
        await node.run(pod)
        await until(lambda: agent.pods.get(uid) is not None)
        assert occupied(node) == []
        await node.drop_pod("job")
        await until(lambda: occupied(node) == [(uid, (a_share(),))])
        await node.stop(pod)
        await until(lambda: occupied(node) == [])


def occupied(node: Node) -> list[object]:
    values = node.bus.values("tessera-devices")
    if f"{NODE}.nvidia" not in values:
        return []
    state = decode_device(values[f"{NODE}.nvidia"].data)
    return [(left.uid, left.shares) for left in state.occupied]


def usage_file(given: Adjustment) -> Path:
    return next(Path(m.source) for m in given.mounts if m.source.endswith("/usage"))


def overwrite(path: Path, data: bytes) -> None:
    """As a container does, in place."""
    with path.open("r+b") as file:
        file.write(data)
