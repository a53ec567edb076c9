"""Grafana's dashboards, from one line a panel: `generate.py` writes them next to the rules.

They ask for no more than Prometheus and the labels that our metrics have. A test holds every metric
that a panel names against those that are published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

COLUMNS: Final = 24
WIDTH: Final = 8
HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}

Json = dict[str, Any]


class Panel(NamedTuple):
    """One graph; several questions of it are drawn together."""

    title: str
    asks: tuple[tuple[str, str], ...]
    """What is asked, and what it is called: `{{label}}` is the label's value."""
    unit: str = "short"
    """As Grafana calls it."""


def one(title: str, ask: str, legend: str = "", unit: str = "short") -> Panel:
    """A panel of one question."""
    return Panel(title, ((ask, legend),), unit)


def p99(metric: str, by: str = "") -> str:
    """The slowest one of a hundred, in seconds."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({metric}_bucket[5m])))"


def rates(metric: str, by: str) -> str:
    """How often in a second."""
    return f"sum by ({by}) (rate({metric}[5m]))"


CLUSTER: Final = (
    one("Replicas that lead (1)", "sum(tessera_scheduler_leading)"),
    one("Grants by phase", "max by (phase) (tessera_scheduler_grants)", "{{phase}}"),
    one("Cards granted beyond what they have (0)", "max(tessera_scheduler_overgranted_cards)"),
    one("Why pods wait, a second", rates("tessera_scheduler_refusals_total", "reason"),
        "{{reason}}"),
    Panel("Memory of all cards", (
        ("sum(tessera_agent_card_memory_bytes)", "there"),
        ("sum(tessera_agent_container_memory_limit_bytes)", "granted"),
        ("sum(tessera_agent_card_memory_used_bytes)", "in use"),
    ), "bytes"),
    one("Cards that take pods", "count by (model) (tessera_agent_card_healthy == 1)",
        "{{model}}"),
    one("Cards held, by namespace", "sum by (namespace) (tessera_quota_used_cards)",
        "{{namespace}}"),
    one("Memory held, by namespace", "sum by (namespace) (tessera_quota_used_memory_bytes)",
        "{{namespace}}", "bytes"),
    one("Pods that wait, by quota", "tessera_quota_waiting_pods", "{{namespace}}/{{quota}}"),
    one("Pods whose cards rest, by quota", "tessera_quota_idle_pods", "{{namespace}}/{{quota}}"),
    one("Grants that somebody touched", rates("tessera_scheduler_alarms_total", "wrong"),
        "{{wrong}}"),
    one("Plans by phase", "sum by (phase) (tessera_rebalancer_plans)", "{{phase}}"),
)  # fmt: skip
SCHEDULER: Final = (
    one("Calls of kube-scheduler, a second", rates("tessera_scheduler_extender_calls_total",
        "verb, outcome"), "{{verb}} {{outcome}}"),
    one("Handlers, p99", p99("tessera_scheduler_extender_seconds", "verb"), "{{verb}}", "s"),
    one("Bindings, a second", rates("tessera_scheduler_binds_total", "outcome"), "{{outcome}}"),
    one("Bindings, p99", p99("tessera_scheduler_bind_seconds"), "", "s"),
    one("Admissions, a second", rates("tessera_scheduler_admissions_total", "phase, outcome"),
        "{{phase}} {{outcome}}"),
    one("Admissions, p99", p99("tessera_scheduler_admission_seconds", "phase"), "{{phase}}", "s"),
    one("Lists after a start or a gap", rates("tessera_scheduler_relists_total", "kind"),
        "{{kind}}"),
    one("Reservations that nobody used", "rate(tessera_scheduler_reservations_expired_total[5m])"),
    one("Cards on which the books differ (0)",
        "max by (against) (tessera_scheduler_audit_cards_differing)", "{{against}}"),
    one("Live resizes", rates("tessera_scheduler_resizes_total", "outcome"), "{{outcome}}"),
    one("Wakes of kube-scheduler", rates("tessera_scheduler_wakes_total", "outcome"),
        "{{outcome}}"),
    one("Memory of our processes",
        'process_resident_memory_bytes{namespace="tessera-system"}', "{{pod}}", "bytes"),
)  # fmt: skip
NODES: Final = (
    one("Cards that are ill", "tessera_agent_card_healthy == 0", "{{node}} {{card}}"),
    one("Problems of nodes", "tessera_agent_problems > 0", "{{node}} {{pod}}"),
    one("Polls that the driver left unanswered", rates("tessera_agent_silent_polls_total",
        "node"), "{{node}}"),
    one("Busy", "tessera_agent_card_busy_percent", "{{node}} {{card}}", "percent"),
    one("Memory in use",
        "tessera_agent_card_memory_used_bytes / tessera_agent_card_memory_bytes * 100",
        "{{node}} {{card}}", "percent"),
    one("Processes on a card", "sum by (node, card) (tessera_agent_container_processes)",
        "{{node}} {{card}}"),
    one("Contended", "tessera_rebalancer_card_contended_percent", "{{node}} {{card}}", "percent"),
    one("Granted cores at rest", "tessera_rebalancer_card_idle_cores_percent",
        "{{node}} {{card}}", "percent"),
    one("Cores lent", "tessera_agent_container_lent_percent", "{{namespace}}/{{pod}}", "percent"),
    one("Held back by limits", "tessera_agent_container_throttled_percent",
        "{{namespace}}/{{pod}}", "percent"),
    one("Containers that limits do not hold (none)", "tessera_agent_container_enforced == 0",
        "{{namespace}}/{{pod}} {{container}}"),
    one("Containers refused, a second", rates("tessera_agent_refusals_total", "why"), "{{why}}"),
)  # fmt: skip
GANGS: Final = (
    one("Gangs by phase", "max by (phase) (tessera_scheduler_gangs)", "{{phase}}"),
    one("What gangs wait for", "max by (reason) (tessera_scheduler_gangs_waiting)", "{{reason}}"),
    one("Longest wait", "max(tessera_scheduler_gang_longest_wait_seconds)", unit="s"),
    one("From the first pod to the start, slowest of a hundred",
        p99("tessera_scheduler_gang_start_seconds"), unit="s"),
    one("Starts given up, a second", "sum(rate(tessera_scheduler_gang_misses_total[5m]))"),
    one("Statuses that another scheduler writes (0)",
        "max(tessera_scheduler_gang_status_other_writers)"),
    one("Cards used by queues",
        'max by (group, queue, vendor) (tessera_scheduler_queue_used{resource="cards"})',
        "{{queue}} {{vendor}}"),
    one("Cards that queues deserve",
        'max by (group, queue, vendor) (tessera_scheduler_queue_deserved{resource="cards"})',
        "{{queue}} {{vendor}}"),
    one("Use beyond what queues deserve, part of the cluster",
        "max by (group, queue) (tessera_scheduler_queue_share)", "{{queue}}"),
    one("Gangs that wait in queues",
        "max by (group, queue) (tessera_scheduler_queue_waiting_gangs)", "{{queue}}"),
    one("Pods that wait in queues", "max by (group, queue) (tessera_scheduler_queue_waiting_pods)",
        "{{queue}}"),
    one("Longest wait in queues",
        "max by (group, queue) (tessera_scheduler_queue_longest_wait_seconds)", "{{queue}}", "s"),
)  # fmt: skip
DASHBOARDS: Final[Mapping[str, tuple[Panel, ...]]] = {
    "cluster": CLUSTER,
    "scheduler": SCHEDULER,
    "nodes and cards": NODES,
    "gangs": GANGS,
}


def files() -> dict[str, str]:
    """File -> JSON of a dashboard."""
    return {
        f"{_slug(name)}.json": json.dumps(_dashboard(name, panels), indent=1) + "\n"
        for name, panels in DASHBOARDS.items()
    }


def _slug(name: str) -> str:
    return "tessera-" + name.replace(" ", "-")


def _dashboard(name: str, panels: Iterable[Panel]) -> Json:
    source = {
        "name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus",
    }  # fmt: skip
    return {
        "uid": _slug(name), "title": f"Tessera: {name}", "tags": ["tessera"],
        "schemaVersion": 39, "editable": True, "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }  # fmt: skip


def _panel(number: int, panel: Panel) -> Json:
    across = COLUMNS // WIDTH
    return {
        "id": number + 1, "title": panel.title, "type": "timeseries", "datasource": SOURCE,
        "gridPos": {
            "x": number % across * WIDTH, "y": number // across * HEIGHT, "w": WIDTH, "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "expr": ask, "legendFormat": legend or "__auto",
             "datasource": SOURCE}
            for i, (ask, legend) in enumerate(panel.asks)
        ],
    }  # fmt: skip
