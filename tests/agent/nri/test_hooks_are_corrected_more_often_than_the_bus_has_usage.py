"""Hooks get what the driver measured at each of its answers, the bus in its own time."""

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tessera_agent.usage.settings import UsageSettings
from tessera_core.dialect_kit.readings import ProcessReading
from tessera_core.hook.records import padded
from tessera_core.hook.usage_file import PATH
from tessera_kubelet.nri.types import Adjustment
from tessera_testing.readers import a_reading
from tests.agent.limitsfile import limits_of
from tests.agent.nri.runtime_node import NODE, Node, a_node, a_share, granted, until
from tests.agent.usagefile import a_usage

ONCE = UsageSettings(interval_s=1000, correct_s=0.01)


def has_measured(given: Adjustment, ns: int) -> bool:
    return limits_of(given).cards[0].measured_ns == ns


def work(node: Node, stamp: int, busy_ns: int) -> None:
    """The container's process has kept the card busy for so long."""
    process = ProcessReading(pid=700, busy_ns=busy_ns)
    card = replace(a_reading(0), processes=(process,), sampled_us=stamp)
    node.reader.show(card, a_reading(1))


def count(given: Adjustment) -> None:
    """Its hook has counted something."""
    usage = next(Path(m.source) for m in given.mounts if m.destination == PATH)
    with usage.open("r+b") as file:
        file.write(a_usage({"uuid": padded("GPU-0", 64), "raw_ns": 9}))


async def test_limited_cores_are_corrected_between_two_looks(tmp_path: Path) -> None:
    usage = replace(ONCE, proc_folder=str(tmp_path))
    subject = f"tessera.v1.default.usage.{NODE}"
    async with a_node(tmp_path) as node, node.agent(usage=usage) as agent:
        pod = granted("job", a_share(cores_percent=30))
        given = await node.create(pod)
        await node.start(pod, pid=700)
        count(given)
        work(node, 1000, 50)
        await until(lambda: agent.devices.closely)
        for stamp, busy_ns in ((2000, 60), (3000, 90)):
            work(node, stamp, busy_ns)
            await until(partial(has_measured, given, busy_ns - 50))
        await until(lambda: node.bus.said(subject))
        assert len(node.bus.said(subject)) == 1


async def test_the_driver_is_not_hurried_for_those_without_a_limit(tmp_path: Path) -> None:
    usage = UsageSettings(interval_s=0.05, correct_s=0.01, proc_folder=str(tmp_path))
    async with a_node(tmp_path) as node, node.agent(usage=usage) as agent:
        pod = granted("job", a_share())
        given = await node.create(pod)
        await node.start(pod, pid=700)
        count(given)
        work(node, 1000, 50)
        await until(lambda: agent.devices.readings.cards[0].sampled_us == 1000)
        stamps = iter(range(1001, 100_000))

        def is_corrected() -> bool:
            stamp = next(stamps)
            work(node, stamp, stamp)
            return not has_measured(given, 0)

        await until(is_corrected)
        assert not agent.devices.closely
