"""Metrics are what was last concluded, under our names and under GPU Manager's."""

from msgspec.structs import replace

from tessera_agent.metrics import AgentMetrics, GrantedAmounts, MetricsSnapshot
from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli
from tessera_core.hook.usage_file import Spoilt
from tessera_runtime.metrics import MetricsRegistry
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.device_reports import CardLoad, CardUse, ContainerUse, NodeUsage

CARDS = tuple(
    Card(id=f"GPU-{i}", index=i, vendor="v", model="M", memory_bytes=1000 * MIB, healthy=i == 0)
    for i in range(2)
)
USE = ContainerUse(
    namespace="ns", pod="p", uid="u", container="c", enforced=False, gaps=("no-hook",),
    cards=(
        CardUse(card="GPU-0", memory_bytes=100 * MIB, cores_percent=20, memory_limit_bytes=7),
        CardUse(card="GPU-1", memory_bytes=50 * MIB, cores_percent=5),
    ),
)  # fmt: skip
USAGE = NodeUsage(
    node="n", vendor="v", at=1, interval_s=2, containers=(USE,),
    cards=(CardLoad(card="GPU-0", memory_used_bytes=300, cores_percent=44),),
)  # fmt: skip
BASE = 'pod_name="p",namespace="ns",node="n",container_name="c"'


def lines(picture: MetricsSnapshot) -> set[str]:
    registry = MetricsRegistry("agent")
    AgentMetrics(registry, "n").take_snapshot = lambda: picture
    return set(registry.text().decode().splitlines())


def samples(text: set[str], name: str) -> dict[str, float]:
    found = [line.rpartition(" ") for line in text if line.partition("{")[0] == name]
    return {by(labels.partition("{")[2].rstrip("}")): float(value) for labels, _, value in found}


def by(labels: str) -> str:
    """Labels in one order, whichever they were written in."""
    return ",".join(sorted(labels.split(",")))


def test_gpu_managers_dashboards_go_on() -> None:
    requested = (
        GrantedAmounts(namespace="ns", pod="p", container="c", cards=0.5, memory_bytes=300 * MIB),
        GrantedAmounts(namespace="ns", pod="p", container="sidecar"),
    )
    text = lines(MetricsSnapshot(node="n", cards=CARDS, usage=USAGE, requested=requested))
    assert samples(text, "container_gpu_utilization") == {
        by(f'{BASE},gpu="gpu0"'): 20, by(f'{BASE},gpu="gpu1"'): 5, by(f'{BASE},gpu="total"'): 25,
    }  # fmt: skip
    assert samples(text, "container_gpu_memory_total") == {
        by(f'{BASE},gpu_memory="gpu0"'): 100, by(f'{BASE},gpu_memory="gpu1"'): 50,
        by(f'{BASE},gpu_memory="total"'): 150,
    }  # fmt: skip
    sidecar = BASE.replace('"c"', '"sidecar"')
    assert samples(text, "container_request_gpu_utilization") == {
        by(f'{BASE},req_of_gpu="total"'): 0.5, by(f'{sidecar},req_of_gpu="total"'): 0,
    }  # fmt: skip
    assert samples(text, "container_request_gpu_memory") == {
        by(f'{BASE},req_of_gpu_memory="total"'): 300, by(f'{sidecar},req_of_gpu_memory="total"'): 0,
    }  # fmt: skip


def test_cards_and_containers_have_samples() -> None:
    text = lines(MetricsSnapshot(node="n", cards=CARDS, usage=USAGE))
    assert samples(text, "tessera_agent_card_healthy") == {
        by('card="GPU-0",index="0",model="M"'): 1, by('card="GPU-1",index="1",model="M"'): 0,
    }  # fmt: skip
    assert samples(text, "tessera_agent_card_busy_percent") == {
        by('card="GPU-0",index="0",model="M"'): 44
    }
    assert samples(text, "tessera_agent_container_cores_percent") == {
        by('namespace="ns",pod="p",container="c",card="GPU-0"'): 20,
        by('namespace="ns",pod="p",container="c",card="GPU-1"'): 5,
    }
    assert samples(text, "tessera_agent_container_enforced") == {
        by('namespace="ns",pod="p",container="c"'): 0
    }
    assert samples(text, "tessera_agent_container_gap") == {
        by('namespace="ns",pod="p",container="c",gap="no-hook"'): 1
    }


def test_what_containers_hold_of_a_card_is_published() -> None:
    held = {"GPU-1": Charge(memory_bytes=300 * MIB, cores_milli=milli(40), slots=2)}
    text = lines(MetricsSnapshot(node="n", cards=CARDS, held=held))
    of = [by(f'card="GPU-{i}",index="{i}",model="M"') for i in range(2)]
    for name, amount in (
        ("shares", 2), ("cores_granted_percent", 40), ("memory_granted_bytes", 300 * MIB),
    ):  # fmt: skip
        assert samples(text, f"tessera_agent_card_{name}") == {of[0]: 0, of[1]: amount}


def test_what_went_wrong_is_counted() -> None:
    snapshot = MetricsSnapshot(
        node="n", problems=2, spoilt={Spoilt.SIZE: 3}, silent_polls=4, overwritten=5
    )
    text = lines(snapshot)
    assert "tessera_agent_problems 2.0" in text
    assert "tessera_agent_silent_polls_total 4.0" in text
    assert "tessera_agent_inventory_overwritten_total 5.0" in text
    spoilt = samples(text, "tessera_agent_usage_files_spoilt_total")
    assert spoilt['why="wrong-size"'] == 3
    assert len(spoilt) == len(Spoilt)


def test_allocations_that_failed_for_others_add_up() -> None:
    registry = MetricsRegistry("agent")
    metrics = AgentMetrics(registry, "n")
    metrics.take_snapshot = lambda: MetricsSnapshot(node="n", cards=CARDS)
    for failed in (2, 0, 3):
        uses = (CardUse(card="GPU-0", failed_for_others=failed), CardUse(card="GPU-1"))
        metrics.count(replace(USAGE, containers=(replace(USE, cards=uses),)))
    text = set(registry.text().decode().splitlines())
    name = "tessera_agent_allocations_failed_for_others_total"
    assert samples(text, name) == {'card="GPU-0"': 5, 'card="GPU-1"': 0}


def test_memory_and_launches_over_time_have_samples() -> None:
    busy = replace(
        USE.cards[0], allocated_bytes_per_s=500, kernel_times=(0, 9), kernel_p50_us=5,
        kernel_p99_us=8_000,
    )  # fmt: skip
    usage = replace(USAGE, containers=(replace(USE, cards=(busy, USE.cards[1])),))
    text = lines(MetricsSnapshot(
        node="n", cards=CARDS, usage=usage, peaks={("u", "c", "0"): 1, ("u", "c", "1"): 70 * MIB}
    ))  # fmt: skip
    of = [f'namespace="ns",pod="p",container="c",card="GPU-{i}"' for i in range(2)]
    assert samples(text, "tessera_agent_container_memory_peak_bytes") == {
        by(of[0]): 100 * MIB, by(of[1]): 70 * MIB,
    }  # fmt: skip
    assert samples(text, "tessera_agent_container_allocated_bytes_per_second") == {
        by(of[0]): 500, by(of[1]): 0,
    }  # fmt: skip
    assert samples(text, "tessera_agent_container_kernel_seconds") == {
        by(f'{of[0]},quantile="0.5"'): 5e-6, by(f'{of[0]},quantile="0.99"'): 8e-3,
    }  # fmt: skip


def test_names_that_a_user_chose_do_no_harm() -> None:
    odd = ContainerUse(namespace='a"b', pod="\n", uid="u", container="\\")
    usage = NodeUsage(node="n", vendor="v", at=1, interval_s=2, containers=(odd,))
    text = lines(MetricsSnapshot(node="n", usage=usage))
    assert (
        'tessera_agent_container_enforced{container="\\\\",namespace="a\\"b",pod="\\n"} 1.0' in text
    )
