"""KAI's and Run:ai's fractions of cards, by annotations of the pod.

    metadata:
      annotations:
        gpu-fraction: "0.5"              # of a card's memory; or gpu-memory: "2000" (MiB)
        gpu-fraction-num-devices: "2"    # of so many cards
    spec:
      schedulerName: kai-scheduler

One container has the fraction: the first, or the one that `gpu-fraction-container-name` names.
Whole cards are `nvidia.com/gpu`, which is HAMi's name otherwise. A fraction is of memory; compute
is shared by the processes that compute, and nothing is promised of it.

KAI holds each shared card with a pod of its own (namespace `kai-resource-reservation`), on which
it finds the card's UUID; pods with fractions carry a label that names the same group. Queues, gangs
and MIG instances are not offered. KAI deletes running pods that carry its group label without such
a pod, so that label is never written.

Source: NVIDIA/KAI-Scheduler 72de64f, after v0.13.0 (`pkg/common/constants`, `pkg/common/resources/
gpu_sharing.go`, `pkg/binder/plugins/gpusharing/gpu-request/gpu_request_validator.go`,
`pkg/binder/binding/resourcereservation`, `pkg/binder/common/gpu_access.go`, `docs/gpu-sharing`).
Run:ai's names are those of KAI before v0.6.0 (its changelog), and of docs.run.ai.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tessera_core.dialect_kit import Dialect, Example, never_best_effort
from tessera_core.dialects.kai.admission import admit, claim
from tessera_core.dialects.kai.injection import inject
from tessera_core.dialects.kai.names import (
    CHOICES,
    DIALECT,
    FRACTION,
    MEMORY,
    RESULT_KEYS,
    VENDOR,
)
from tessera_core.dialects.kai.names import KaiOptions as Options
from tessera_core.dialects.kai.preemptible import preemptible
from tessera_core.dialects.kai.recorded_shares import annotate, recorded_shares
from tessera_core.dialects.kai.reservations import with_cards_of_groups

__all__ = ["OPT_IN", "Options", "dialect"]

OPT_IN: Final = True
"""KAI may run in the same cluster, and Tessera's kube-scheduler must not serve its name then."""


def dialect(options: Options) -> Dialect:
    """The dialect as configured."""
    return Dialect(
        name=DIALECT,
        vendor=VENDOR,
        resources=frozenset((options.shares, options.whole)),
        shared_names=frozenset((options.whole,)),
        request_keys=frozenset((FRACTION, MEMORY)),
        plugin_resources=frozenset((options.shares, options.whole)),
        result_keys=RESULT_KEYS,
        schedulers=options.scheduler_names,
        choices=CHOICES,
        claim=partial(claim, options),
        admit=partial(admit, options),
        best_effort=preemptible if options.preemptible_is_best_effort else never_best_effort,
        annotate=annotate,
        inject=partial(inject, options),
        recorded=partial(recorded_shares, options),
        on_node=partial(with_cards_of_groups, options),
        example=Example(
            containers=({options.whole: 2},), scheduler_name=options.scheduler_names[0]
        ),
    )
