"""The labels of HAMi's pods, written with a patch of their own after the Binding.

Kubernetes 1.35 and later copy the labels of the Binding to the pod; earlier releases drop them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from tessera_core.grants.result_annotations import written_labels
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.filter import Filter
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.patches import label
from tessera_scheduler.retry_queue import RetryQueue
from tessera_schema.grants import Grant


class PodLabeller:
    """Writes the dialects' labels on pods that were bound."""

    def __init__(
        self, kube: Kube, registry: DialectRegistry, filter_: Filter, retry_queue: RetryQueue
    ) -> None:
        """`filter_` has the pod as it was filtered: it has to be called before that is
        forgotten."""
        self._kube = kube
        self._registry = registry
        self._filter = filter_
        self._retry_queue = retry_queue

    def on_bound(self, grant: Grant) -> None:
        """Label the pod soon, if its dialect has labels."""
        filtered = self._filter.filtered_pod(grant.uid)
        labels = {} if filtered is None else written_labels(self._registry, filtered.pod, grant)
        if labels:
            self._retry_queue.add("label", grant.uid, partial(self._label, grant, labels))

    async def _label(self, grant: Grant, labels: Mapping[str, str]) -> bool:
        with suppress(ApiConflict, ApiNotFound):  # it is gone
            path = paths.pod(grant.namespace, grant.name)
            await label(self._kube, path, labels, uid=grant.uid)
        return True
