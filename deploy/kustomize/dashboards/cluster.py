"""The whole cluster: what is granted and used, who waits, which alerts fire."""

from __future__ import annotations

from typing import Final

from deploy.kustomize.dashboards.panels import (
    Column,
    Dashboard,
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
    VENDOR,
    of_namespace,
    of_vendor,
    rates,
    series,
)

SHARES: Final = of_vendor("tessera_agent_card_shares")
BUSY: Final = of_vendor("tessera_agent_card_busy_percent")

NOW: Final = Row("Now", (
    stat("Cards", f"sum({of_vendor('vendor:tessera_cards:count')})"),
    stat("Granted", f"sum({SHARES} > bool 0)"),
    stat("Used", f"sum({BUSY} >= bool 1)"),
    stat("Granted and idle", f"sum(({SHARES} > bool 0) * ({BUSY} < bool 1))"),
    stat("That take no pods",
        f"sum({of_vendor('tessera_agent_card_healthy')} == bool 0)", bad_above=1),
    stat("Pods that wait", f"sum({of_namespace('namespace:tessera_waiting_pods:sum')})"),
    stat("Longest wait", f"max({of_namespace('namespace:tessera_longest_wait_seconds:max')})", "s"),
    stat("Containers held back",
        f"sum({of_namespace('tessera_agent_container_throttled_percent')} > bool 10)"),
))  # fmt: skip
WAITING: Final = Row("Who waits", (
    table("Longest wait by namespace", {"namespace": "Namespace"},
        Column("Longest", of_namespace("namespace:tessera_longest_wait_seconds:max"), "s"),
        Column("Pods", of_namespace("namespace:tessera_waiting_pods:sum")),
        width=8, links={"namespace": link("pods", namespace="${__value.raw}")}),
    table("Why they wait", {"namespace": "Namespace", "reason": "Reason"},
        Column("Pods", "max by (namespace, reason) "
            f"({of_namespace('tessera_scheduler_waiting_pods')})"), width=8),
    graph("Refusals, a second", rates("tessera_scheduler_refusals_total", "reason"), "{{reason}}"),
))  # fmt: skip
AMOUNTS: Final = Row("Cards and their memory", (
    graphs("Part of the cards",
        (of_vendor("vendor:tessera_cards_granted:ratio"), "{{vendor}} granted"),
        (of_vendor("vendor:tessera_busy:ratio"), "{{vendor}} used"), unit="percentunit"),
    graphs("Part of the memory",
        (of_vendor("vendor:tessera_memory_granted:ratio"), "{{vendor}} granted"),
        (of_vendor("vendor:tessera_memory_used:ratio"), "{{vendor}} used"), unit="percentunit"),
    graph("Cards that take pods",
        f"count by (model) ({of_vendor('tessera_agent_card_healthy')} == 1)", "{{model}}"),
))  # fmt: skip
NAMESPACES: Final = Row("Namespaces", (
    table("Use by namespace", {"namespace": "Namespace"},
        Column("GPUs used", of_namespace("namespace:tessera_gpus_used:sum")),
        Column("GPU hours of a day", of_namespace("namespace:tessera_gpu_hours:sum1d")),
        Column("Memory granted",
            of_namespace("namespace:tessera_memory_granted_bytes:sum"), "bytes"),
        Column("Memory used", of_namespace("namespace:tessera_memory_used_bytes:sum"), "bytes"),
        width=16, links={"namespace": link("pods", namespace="${__value.raw}")}),
    graph("GPUs used", of_namespace("namespace:tessera_gpus_used:sum"), "{{namespace}}"),
    graph("Cards held, by quota", of_namespace("tessera_quota_used_cards"),
        "{{namespace}}/{{quota}}"),
    graph("Memory held, by quota", of_namespace("tessera_quota_used_memory_bytes"),
        "{{namespace}}/{{quota}}", "bytes"),
    graphs("Pods that wait, or whose cards rest, by quota",
        (of_namespace("tessera_quota_waiting_pods"), "{{namespace}}/{{quota}} wait"),
        (of_namespace("tessera_quota_idle_pods"), "{{namespace}}/{{quota}} rest")),
))  # fmt: skip
HEALTH: Final = Row("Is all well", (
    table("Alerts that fire", {"alertname": "Alert", "severity": "Severity"},
        Column("Firing", "count by (alertname, severity) "
            '(ALERTS{alertname=~"Tessera.*",alertstate="firing"})'),
        width=8, links={"alertname": "${docs}/operations.md#alerts"}),
    graph("Replicas that lead (1)", f"sum({series('tessera_scheduler_leading')})"),
    graph("Cards granted beyond what they have (0)",
        f"max({series('tessera_scheduler_overgranted_cards')})"),
    graph("Grants by phase", f"max by (phase) ({series('tessera_scheduler_grants')})", "{{phase}}"),
    graph("Grants that somebody touched", rates("tessera_scheduler_alarms_total", "wrong"),
        "{{wrong}}"),
    graph("Plans by phase", f"sum by (phase) ({series('tessera_rebalancer_plans')})", "{{phase}}"),
))  # fmt: skip
DASHBOARD: Final = Dashboard(
    "cluster", (*COMMON, VENDOR, NAMESPACE), (NOW, WAITING, AMOUNTS, NAMESPACES, HEALTH)
)
