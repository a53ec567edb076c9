"""Which program this is: its release, the commit, and what runs it."""

from __future__ import annotations

import platform

from tessera_core.hami_metrics.family import BuildInfo, Family, build_info
from tessera_runtime.metrics import GaugeMetricFamily, MetricsRegistry
from tessera_schema.version import VERSION


def hami_build_info(revision: str) -> Family:
    """The program's build under HAMi's name; `revision` is its commit, empty where not known."""
    return build_info(
        BuildInfo(
            version=VERSION, revision=revision, platform=_platform(),
            compiler=f"{platform.python_implementation()} {platform.python_version()}",
        )
    )  # fmt: skip


def add_build_info(metrics: MetricsRegistry, service: str, revision: str) -> None:
    """Add `tessera_build_info`, which is always 1, to a service's metrics."""
    family = GaugeMetricFamily(
        "tessera_build_info", "1, with the release and the commit that run.",
        labels=("service", "version", "revision", "python", "platform"),
    )  # fmt: skip
    values = (service, VERSION, revision, platform.python_version(), _platform())
    family.add_metric(values, 1)
    metrics.collect(lambda: [family])


def _platform() -> str:
    return f"{platform.system().lower()}/{platform.machine()}"
