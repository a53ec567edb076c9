"""The scheduler: its calls, how long they take, and what its ledger says."""

from __future__ import annotations

from typing import Final

from deploy.kustomize.dashboards.panels import Dashboard, Row, graph, graphs, stat
from deploy.kustomize.dashboards.variables import COMMON, TRACES, p99, rates, series

NOW: Final = Row("Now", (
    stat("Replicas that lead", f"sum({series('tessera_scheduler_leading')})"),
    stat("Nodes", f"max({series('tessera_scheduler_nodes')})"),
    stat("Grants", f"max({series('tessera_scheduler_grants', phase='bound')})"),
    stat("Pods that wait", f"sum({series('namespace:tessera_waiting_pods:sum')})"),
    stat("Filter, p99", f"max({series('verb:tessera_extender_seconds:p99', verb='filter')})", "s",
        bad_above=0.05),
    stat("Bindings, p99", f"max({series('cluster:tessera_bind_seconds:p99')})", "s", bad_above=5),
    stat("Admissions, p99", f"max({series('phase:tessera_admission_seconds:p99')})", "s",
        bad_above=1),
    stat("Silent agents", f"max({series('tessera_scheduler_silent_agents')})", bad_above=1),
))  # fmt: skip
CALLS: Final = Row("Calls, and how long they take", (
    graph("Calls of kube-scheduler, a second",
        rates("tessera_scheduler_extender_calls_total", "verb, outcome"), "{{verb}} {{outcome}}"),
    graph("Bindings, a second", rates("tessera_scheduler_binds_total", "outcome"), "{{outcome}}"),
    graph("Admissions, a second",
        rates("tessera_scheduler_admissions_total", "phase, outcome"), "{{phase}} {{outcome}}"),
    graphs("Time of handlers, p99", (p99("tessera_scheduler_extender_seconds", "verb"), "{{verb}}"),
        unit="s", span="tessera.scheduler.filter"),
    graphs("Time of Bindings, p99", (p99("tessera_scheduler_bind_seconds"), "bind"),
        unit="s", span="tessera.scheduler.bind"),
    graphs("Time of admissions, p99",
        (p99("tessera_scheduler_admission_seconds", "phase"), "{{phase}}"),
        unit="s", span="tessera.scheduler.admit"),
))  # fmt: skip
LEDGER: Final = Row("Ledger", (
    graph("Lists after a start or a gap", rates("tessera_scheduler_relists_total", "kind"),
        "{{kind}}"),
    graph("Reservations that nobody used",
        f"rate({series('tessera_scheduler_reservations_expired_total')}[$__rate_interval])"),
    graph("Cards on which the ledger differs (0)",
        f"max by (against) ({series('tessera_scheduler_audit_cards_differing')})", "{{against}}"),
    graph("Live resizes", rates("tessera_scheduler_resizes_total", "outcome"), "{{outcome}}"),
    graph("Wakes of kube-scheduler", rates("tessera_scheduler_wakes_total", "outcome"),
        "{{outcome}}"),
    graph("Memory of our processes",
        series("process_resident_memory_bytes", namespace="tessera-system"), "{{pod}}", "bytes"),
))  # fmt: skip
DASHBOARD: Final = Dashboard("scheduler", (*COMMON, TRACES), (NOW, CALLS, LEDGER))
