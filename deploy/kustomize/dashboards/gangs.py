"""Gangs, and queues."""

from __future__ import annotations

from typing import Final

from deploy.kustomize.dashboards.panels import Column, Dashboard, Row, graph, stat, table
from deploy.kustomize.dashboards.variables import COMMON, p99, series, values

QUEUE: Final = values("queue", "Queue", 'tessera_scheduler_queue_share{cluster=~"$cluster"}')
NAMED: Final = {"group": "Group", "queue": "Queue"}
BY_VENDOR: Final = {**NAMED, "vendor": "Vendor"}


def queue(metric: str) -> str:
    """One figure for each of the chosen queues."""
    return f"max by (group, queue) ({series(f'tessera_scheduler_queue_{metric}', queue='$queue')})"


def cards(metric: str) -> str:
    """One figure for each vendor's cards in the chosen queues."""
    found = series(f"tessera_scheduler_queue_{metric}", queue="$queue", resource="cards")
    return f"max by (group, queue, vendor) ({found})"


def recorded(name: str) -> str:
    """Cards of the chosen queues, by vendor."""
    return series(f"queue:tessera_cards_{name}:max", queue="$queue")


NOW: Final = Row("Now", (
    stat("Gangs that wait", f"sum(max by (reason) ({series('tessera_scheduler_gangs_waiting')}))"),
    stat("Longest wait", f"max({series('tessera_scheduler_gang_longest_wait_seconds')})", "s"),
    stat("Gangs that run",
        f"max({series('tessera_scheduler_gangs', phase='started')})"),
    stat("Broken", f"max({series('tessera_scheduler_gangs', phase='broken')})", bad_above=1),
    stat("Starts given up in an hour",
        f"sum(increase({series('tessera_scheduler_gang_misses_total')}[1h]))"),
    stat("Cards used by queues", f"sum({recorded('used')})"),
    stat("Pods that wait in queues", f"sum({queue('waiting_pods')})"),
    stat("Queues left out", f"max({series('tessera_scheduler_queues_left_out')})", bad_above=1),
))  # fmt: skip
QUEUES: Final = Row("Queues", (
    table("Cards of queues", BY_VENDOR,
        Column("Used", recorded("used")), Column("Deserved", recorded("deserved")),
        Column("Guaranteed", cards("guarantee")),
        Column("At most", cards("cap")), width=12),
    table("Who waits longest in queues", NAMED,
        Column("Longest wait", queue("longest_wait_seconds"), "s"),
        Column("Pods", queue("waiting_pods")),
        Column("Gangs", queue("waiting_gangs")),
        Column("Beyond what it deserves", queue("share"), "percentunit"),
        width=12),
    graph("Cards used, by queue", recorded("used"), "{{queue}} {{vendor}}"),
    graph("Use beyond what queues deserve", queue("share"), "{{queue}}",
        "percentunit"),
    graph("Longest wait, by queue", queue("longest_wait_seconds"),
        "{{queue}}", "s"),
))  # fmt: skip
GANGS: Final = Row("Gangs", (
    graph("Gangs by phase", f"max by (phase) ({series('tessera_scheduler_gangs')})", "{{phase}}"),
    graph("What gangs wait for",
        f"max by (reason) ({series('tessera_scheduler_gangs_waiting')})", "{{reason}}"),
    graph("Longest wait of a gang",
        f"max({series('tessera_scheduler_gang_longest_wait_seconds')})", unit="s"),
    graph("From the first pod to the start, p99",
        p99("tessera_scheduler_gang_start_seconds"), unit="s"),
    graph("Starts given up, a second",
        f"sum(rate({series('tessera_scheduler_gang_misses_total')}[$__rate_interval]))"),
    graph("Statuses that another scheduler writes (0)",
        f"max({series('tessera_scheduler_gang_status_other_writers')})"),
))  # fmt: skip
DASHBOARD: Final = Dashboard("gangs", (*COMMON, QUEUE), (NOW, QUEUES, GANGS))
