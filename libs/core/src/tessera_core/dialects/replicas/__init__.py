"""Replicas of NVIDIA's own device plugin: `nvidia.com/gpu.shared`, by time-slicing or MPS.

The plugin lists each card several times. A container that names a replica gets one of so many equal
parts of a card's memory and compute:

    resources:
      limits:
        nvidia.com/gpu.shared: 1

With MPS these are the bounds that its daemon sets (memory / replicas in whole MiB,
`set_default_active_thread_percentage` 100 / replicas). With time-slicing the plugin sets no bound
at all, so that a replica may use all of the memory that others leave: here it has its equal part,
since a card that promises nothing cannot be shared with pods that are promised something.

Where the plugin does not rename (`renameByDefault: false`), a replica is called `nvidia.com/gpu`.
That name belongs to HAMi's dialect, in which it is a whole card; this one takes it over in pods
that select nodes of shared cards, and in all others with the option `plain`.

Source: NVIDIA/k8s-device-plugin v0.20.0 (`README.md` "Shared Access to GPUs",
`cmd/mps-control-daemon/mps/daemon.go`, `internal/lm/resource.go`, `api/config/v1/replicas.go`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tessera_core.dialect_kit import Dialect, Dimension, Example, QuotaUnit
from tessera_core.dialects.replicas.admission import admit, claim
from tessera_core.dialects.replicas.inventory import inventories
from tessera_core.dialects.replicas.names import DIALECT, VENDOR
from tessera_core.dialects.replicas.names import ReplicasOptions as Options
from tessera_core.dialects.replicas.running_pods import as_replicas

__all__ = ["OPT_IN", "Options", "dialect"]

OPT_IN: Final = True
"""Its pods name no scheduler: kube-scheduler places them on nodes that run NVIDIA's plugin."""


def dialect(options: Options) -> Dialect:
    """The dialect as configured. NVIDIA's plugin writes nothing on pods, and so does this."""
    return Dialect(
        name=DIALECT,
        vendor=VENDOR,
        resources=frozenset((options.shared, options.whole)),
        shared_names=frozenset((options.whole,)),
        plugin_resources=frozenset((options.shared, options.whole)),
        quota={options.shared: QuotaUnit(Dimension.CARDS)},
        claim=partial(claim, options),
        admit=partial(admit, options),
        inventory=partial(inventories, options),
        annotate=lambda _placed: {},
        on_node=partial(as_replicas, options),
        example=Example(
            containers=({options.shared: 1}, {options.shared: 2}), options={"replicas": 4}
        ),
    )
