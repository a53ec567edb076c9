"""The configuration that makes a stock kube-scheduler ask our extender.

Every profile is served by the same extender. Nodes are sent by name alone, and all of them are
looked at, because Tessera chooses among them; resources that no kubelet counts are counted by
Tessera.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import SCHEDULER


def profiles(registry: DialectRegistry) -> tuple[str, ...]:
    """Our own profile's name, and those that the dialects' manifests use."""
    used = [name for dialect in registry.dialects.values() for name in dialect.schedulers]
    return tuple(dict.fromkeys((SCHEDULER, *used)))


def configuration(
    registry: DialectRegistry, extender: str, names: Sequence[str], *, timeout_s: int = 30
) -> dict[str, Any]:
    """A KubeSchedulerConfiguration. `extender` is a base URL, `names` the profiles to serve."""
    used = {name for dialect in registry.dialects.values() for name in dialect.resources}
    managed = sorted(filter(_is_extended, used))
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "preemptVerb": "preempt",
                "weight": 10,
                "nodeCacheCapable": True,
                "httpTimeout": f"{timeout_s}s",
                "managedResources": [
                    {"name": name, "ignoredByScheduler": True} for name in managed
                ],
            }
        ],
    }


def _is_extended(name: str) -> bool:
    """Whether kube-scheduler takes a name for an extended resource; it starts with no other one in
    `managedResources`. What admission rewrites anyway, as Koordinator's old `kubernetes.io/gpu`,
    does without."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
