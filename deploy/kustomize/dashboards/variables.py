"""Variables of dashboards, and queries that they narrow."""

from __future__ import annotations

from typing import Final

from deploy.kustomize.dashboards.panels import SOURCE, Json

DOCS: Final = "https://docs.invalid/tessera"
"""Where a cluster's administrators read docs/: to be replaced on the dashboard, as the registry is
in the manifests."""


def source(name: str, label: str, kind: str) -> Json:
    """A data source of this kind."""
    return {"name": name, "label": label, "type": "datasource", "query": kind}


def values(name: str, label: str, query: str, *, every: bool = True) -> Json:
    """Values of the label `name` that series have which a selector finds: all at first, or the
    first where rows are repeated for each."""
    some = {
        "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "multi": True,
        "refresh": 2, "sort": 1,
        "query": {"query": f"label_values({query}, {name})", "refId": name},
        **(some if every else {"includeAll": False}),
    }  # fmt: skip


DOCS_AT: Final[Json] = {
    "name": "docs", "label": "Docs at", "type": "textbox", "query": DOCS,
    "current": {"text": DOCS, "value": DOCS},
}  # fmt: skip
PROMETHEUS: Final = source("source", "Prometheus", "prometheus")
TRACES: Final = source("traces", "Traces", "tempo")
CLUSTER: Final = values("cluster", "Cluster", "tessera_scheduler_leading")
VENDOR: Final = values("vendor", "Vendor", 'tessera_agent_card_healthy{cluster=~"$cluster"}')
NODE: Final = values(
    "node", "Node", 'tessera_agent_card_healthy{cluster=~"$cluster",vendor=~"$vendor"}'
)
NAMESPACE: Final = values(
    "namespace", "Namespace", 'tessera_agent_container_memory_bytes{cluster=~"$cluster"}'
)
COMMON: Final = (PROMETHEUS, CLUSTER, DOCS_AT)


def series(metric: str, **labels: str) -> str:
    """Series of the chosen clusters with these labels; a value `$name` is what a variable has."""
    wanted = {"cluster": "$cluster", **labels}
    matchers = (f'{k}{"=~" if v[0] == "$" else "="}"{v}"' for k, v in wanted.items())
    return f"{metric}{{{','.join(matchers)}}}"


def of_vendor(metric: str) -> str:
    """Those of the chosen vendors."""
    return series(metric, vendor="$vendor")


def of_node(metric: str, **labels: str) -> str:
    """Those of the chosen vendors and nodes."""
    return series(metric, vendor="$vendor", node="$node", **labels)


def of_namespace(metric: str, **labels: str) -> str:
    """Those of the chosen namespaces."""
    return series(metric, namespace="$namespace", **labels)


def rates(metric: str, by: str, **labels: str) -> str:
    """How often in a second."""
    return f"sum by ({by}) (rate({series(metric, **labels)}[$__rate_interval]))"


def p99(metric: str, by: str = "") -> str:
    """The slowest one of a hundred, in seconds."""
    labels = f"le, {by}" if by else "le"
    buckets = f"rate({series(f'{metric}_bucket')}[$__rate_interval])"
    return f"histogram_quantile(0.99, sum by ({labels}) ({buckets}))"
