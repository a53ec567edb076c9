"""Pods that hold shares: what each may use and uses, and what the agents do for them."""

from __future__ import annotations

from typing import Final

from deploy.kustomize.dashboards.panels import (
    Column,
    Dashboard,
    Panel,
    Row,
    graph,
    graphs,
    link,
    stat,
    table,
)
from deploy.kustomize.dashboards.variables import (
    COMMON,
    NAMESPACE,
    TRACES,
    of_namespace,
    p99,
    rates,
    values,
)

SHOWN: Final = values(
    "pod", "Pods in rows",
    'tessera_agent_container_memory_bytes{cluster=~"$cluster",namespace=~"$namespace"}',
    every=False,
)  # fmt: skip
POD: Final = {"namespace": "Namespace", "pod": "Pod", "node": "Node"}


def per_pod(metric: str, how: str = "sum") -> str:
    """One figure for each pod."""
    return f"{how} by ({', '.join(POD)}) ({of_namespace(f'tessera_agent_container_{metric}')})"


def on_cards(title: str, *figures: tuple[str, str], unit: str) -> Panel:
    """Metrics of the row's pod, with what each is called, by card."""

    def of_pod(metric: str) -> str:
        return of_namespace(f"tessera_agent_container_{metric}", pod="$pod")

    queries = ((f"sum by (card) ({of_pod(m)})", f"{{{{card}}}} {name}") for m, name in figures)
    return graphs(title, *queries, unit=unit)


NOW: Final = Row("Now", (
    stat("Containers", f"count({of_namespace('tessera_agent_container_enforced')})"),
    stat("Memory granted",
        f"sum({of_namespace('tessera_agent_container_memory_limit_bytes')})", "bytes"),
    stat("Memory used", f"sum({of_namespace('tessera_agent_container_memory_bytes')})", "bytes"),
    stat("GPUs used", f"sum({of_namespace('namespace:tessera_gpus_used:sum')})"),
    stat("Held back",
        f"sum({of_namespace('tessera_agent_container_throttled_percent')} > bool 10)"),
    stat("GPUs lent", f"sum({of_namespace('tessera_agent_container_lent_percent')}) / 100"),
    stat("That limits do not hold",
        f"sum({of_namespace('tessera_agent_container_enforced')} == bool 0)", bad_above=1),
    stat("Pods that wait", f"sum({of_namespace('namespace:tessera_waiting_pods:sum')})"),
))  # fmt: skip
PODS: Final = Row("Pods", (
    table("Pods with shares", POD,
        Column("Cores used", per_pod("cores_percent"), "percent"),
        Column("Cores granted", per_pod("cores_limit_percent"), "percent"),
        Column("Memory used", per_pod("memory_bytes"), "bytes"),
        Column("Memory peak", per_pod("memory_peak_bytes"), "bytes"),
        Column("Memory granted", per_pod("memory_limit_bytes"), "bytes"),
        Column("Held back", per_pod("throttled_percent", "max"), "percent"),
        Column("Lent", per_pod("lent_percent"), "percent"),
        links={
            "pod": link("pods", namespace="${__data.fields.Namespace}", pod="${__value.raw}"),
            "node": link("nodes and cards", node="${__value.raw}"),
        }),
))  # fmt: skip
PER_POD: Final = Row("$pod", (
    on_cards("Memory of $pod", ("memory_bytes", "used"), ("memory_limit_bytes", "granted"),
        ("memory_peak_bytes", "peak of this hour and the last"), unit="bytes"),
    on_cards("Cores of $pod", ("cores_percent", "used"), ("cores_limit_percent", "granted"),
        ("lent_percent", "lent"), unit="percent"),
    on_cards("Time that $pod was held back", ("throttled_percent", "held back"), unit="percent"),
    on_cards("Memory that $pod allocates, a second", ("allocated_bytes_per_second", ""),
        unit="Bps"),
    graph("Time of kernels of $pod", "max by (card, quantile) "
        f"({of_namespace('tessera_agent_container_kernel_seconds', pod='$pod')})",
        "{{card}} {{quantile}}", unit="s"),
    on_cards("Processes of $pod", ("processes", ""), unit="short"),
), repeat="pod")  # fmt: skip
AGENTS: Final = Row("What agents do for them", (
    graphs("Time until a container has its cards, p99",
        (p99("tessera_agent_prepare_seconds"), "answer"), unit="s", span="tessera.agent.prepare"),
    graph("Containers refused, a second", rates("tessera_agent_refusals_total", "why"), "{{why}}"),
    table("Containers that limits do not hold (none)",
        {"namespace": "Namespace", "pod": "Pod", "container": "Container", "gap": "Why"},
        Column("Gap", "max by (namespace, pod, container, gap) "
            f"({of_namespace('tessera_agent_container_gap')} > 0)"), width=8),
))  # fmt: skip
DASHBOARD: Final = Dashboard(
    "pods", (*COMMON, TRACES, NAMESPACE, SHOWN), (NOW, PODS, PER_POD, AGENTS)
)
