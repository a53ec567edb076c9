"""Grafana's dashboards, from a line or two a panel: `generate.py` writes them next to the rules.

`panels` has the kinds of panels and their JSON, `variables` what narrows their queries, each other
module a dashboard. They need no more than Prometheus and the labels that our metrics have. A test
has a real Prometheus evaluate each query on the metrics of the real services.
"""

from __future__ import annotations

import json
from typing import Final

from deploy.kustomize.dashboards import cards, cluster, gangs, pods, scheduler
from deploy.kustomize.dashboards.panels import Dashboard, uid

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    cluster.DASHBOARD, cards.DASHBOARD, pods.DASHBOARD, gangs.DASHBOARD, scheduler.DASHBOARD,
)  # fmt: skip


def files() -> dict[str, str]:
    """File -> JSON of a dashboard."""
    return {
        f"{uid(board.name)}.json": json.dumps(board.json(), indent=1) + "\n" for board in DASHBOARDS
    }
