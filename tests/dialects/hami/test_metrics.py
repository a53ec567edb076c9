"""What HAMi's dashboards read: names, labels and units of its scheduler's metrics."""

from __future__ import annotations

from asyncio import Event

import pytest
from aiohttp import ClientSession, web

from tessera_core.hami_metrics.family import text
from tessera_core.hami_metrics.ledger import families
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_runtime.http.server import HttpSettings, application, serving
from tessera_scheduler.http.hami_metrics import route
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share

CARD = 'node="n1",device_uuid="GPU-0",device_index="0"'
TYPED = f'{CARD},device_type="NVIDIA-A10",zone="vGPU"'
POD = 'namespace="team",node="n1",pod="p",container_index="1",device_uuid="GPU-0",zone="vGPU"'


def free(memory_mib: int = 4, cores: float = 100, model: str = "NVIDIA-A10") -> Ledger:
    """One card, of which a pod's second container holds 1 MiB and 25 cores."""
    ledger = Ledger()
    card = Card(
        id="GPU-0", index=0, vendor="nvidia", model=model, memory_bytes=memory_mib * MIB,
        cores_percent=cores,
    )  # fmt: skip
    ledger.put_node("n1", [card])
    share = Share(
        container="c1", position=1, vendor="nvidia", dialect="hami", card="GPU-0", index=0,
        memory_bytes=MIB, cores_percent=25,
    )  # fmt: skip
    grant = Grant(uid="u", namespace="team", name="p", node="n1", shares=(share,))
    ledger.observe(ObservedPod(uid="u", grant=grant), 0)
    return ledger


def lines(ledger: Ledger, *, legacy: bool = False) -> list[str]:
    grants = [entry.grant for entry in ledger.entries()]
    reported = families(ledger.fleet.snapshot(), grants, legacy=legacy)
    return "".join(text(reported)).splitlines()


def samples(ledger: Ledger) -> list[str]:
    return [line for line in lines(ledger) if not line.startswith("#")]


@pytest.mark.parametrize(
    ("memory_mib", "expected"),
    [
        pytest.param(4, ["0.25"], id="MET-02"),
        pytest.param(0, [], id="MET-02-of-unknown-memory"),
    ],
)
def test_the_part_of_a_cards_memory_that_is_granted_is_reported(
    memory_mib: int, expected: list[str]
) -> None:
    name = f"hami_node_gpu_memory_allocated_ratio{{{TYPED}}} "
    found = [line for line in samples(free(memory_mib)) if "_memory_allocated_ratio" in line]
    assert found == [name + value for value in expected]


def test_every_name_has_its_labels_and_unit() -> None:
    with_cores = f'{CARD},device_cores="100"'
    assert sorted(samples(free())) == sorted([
        f"hami_gpu_memory_limit_bytes{{{TYPED}}} 4194304",
        f"hami_gpu_core_limit_ratio{{{TYPED}}} 100",
        f"hami_gpu_shared_count{{{TYPED}}} 1",
        f"hami_gpu_core_allocated_ratio{{{TYPED}}} 25",
        "hami_gpu_memory_allocated_bytes"
        f'{{{with_cores},device_type="NVIDIA-A10",zone="vGPU"}} 1048576',
        "hami_node_gpu_overview"
        f'{{{with_cores},device_memory_limit="4",device_type="NVIDIA-A10",zone="vGPU"}} 1048576',
        f"hami_node_gpu_memory_allocated_ratio{{{TYPED}}} 0.25",
        f"hami_vgpu_memory_allocated_bytes{{{POD}}} 1048576",
        f"hami_vgpu_core_allocated_ratio{{{POD}}} 25",
    ])  # fmt: skip


def test_cores_are_reported_in_percent_of_cards_that_count_otherwise() -> None:
    reported = samples(free(cores=200))
    assert f"hami_gpu_core_limit_ratio{{{TYPED}}} 100" in reported
    assert f"hami_gpu_core_allocated_ratio{{{TYPED}}} 13" in reported
    assert f"hami_vgpu_core_allocated_ratio{{{POD}}} 13" in reported


def test_older_names_are_reported_on_demand() -> None:
    reported = lines(free(), legacy=True)
    zone = 'zone="vGPU"'
    card = 'nodeid="n1",deviceuuid="GPU-0",deviceidx="0"'
    assert f"nodeGPUMemoryPercentage{{{card},{zone}}} 0.25" in reported
    assert f'GPUDeviceMemoryLimit{{{card},devicetype="NVIDIA-A10",{zone}}} 4194304' in reported
    pod = 'podnamespace="team",nodename="n1",podname="p",containeridx="1",deviceuuid="GPU-0"'
    assert f"vGPUMemoryAllocated{{{pod},{zone}}} 1048576" in reported
    assert len(reported) == 2 * len(lines(free()))


def test_odd_names_do_not_break_the_text() -> None:
    reported = samples(free(model='A"1\\\n'))
    assert any('device_type="A\\"1\\\\\\n"' in line for line in reported)


async def test_they_are_served_where_they_are_requested() -> None:
    settings, leads = HttpSettings(host="127.0.0.1", port=0), Event()
    app: web.Application = application(settings)
    app.add_routes([route(free(), leads.is_set)])
    async with serving(app, settings) as served, ClientSession(served.url) as session:
        async with session.get("/hami/metrics") as response:
            of_a_standby = await response.text()
        async with session.get("/hami/metrics?standby=true") as response:
            all_of_a_standby = await response.text()
        leads.set()
        async with session.get("/hami/metrics") as response:
            plain = await response.text()
        async with session.get("/hami/metrics?legacy=true") as response:
            legacy = await response.text()
    assert f"hami_node_gpu_memory_allocated_ratio{{{TYPED}}} 0.25\n" in plain
    assert "hami_build_info{" in of_a_standby
    assert "node=" not in of_a_standby
    assert all_of_a_standby == plain
    assert "nodeGPUMemoryPercentage" not in plain
    assert "nodeGPUMemoryPercentage" in legacy
