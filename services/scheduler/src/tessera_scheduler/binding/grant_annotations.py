"""What a grant is written as: signed annotations, with the lease term that they are written under.

The ledger keeps a grant without what the dialects give each container (`Grant.given`): that is made
here from the pod, and covered by the signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.admission.admit import strip_results
from tessera_core.admission.pod_size import MOST_ANNOTATION_BYTES
from tessera_core.grants.result_annotations import (
    whole_annotations,
    written_annotations,
    written_labels,
)
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.request import BindingTarget
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.keys.signing_keys import SigningKeys
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.annotation_keys import TERM_KEY, TRACE_KEY
from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant
from tessera_schema.kube import Pod

_BYTES_OF_A_CHARACTER: Final = 4
"""At most."""


class Unwritable(Exception):
    """The grant cannot be written now; the message says why."""


class GrantAnnotations:
    """Makes the annotations of grants."""

    def __init__(
        self,
        *,
        registry: DialectRegistry,
        ledger: Ledger,
        keys: SigningKeys,
        leadership: Leadership,
        pod_reader: PodReader,
        clock: Clock,
    ) -> None:
        """`pod_reader` learns the text of each grant that is sent, and need not verify it again."""
        self._registry = registry
        self._ledger = ledger
        self._keys = keys
        self._leadership = leadership
        self._pod_reader = pod_reader
        self._clock = clock

    def binding_target(self, name: PodKey, pod: Pod, grant: Grant) -> BindingTarget:
        """The Binding that places the pod. Raises Unwritable."""
        written = self.whole(pod, grant)
        trace = tracing.current_traceparent()
        if trace and TRACE_KEY not in pod.metadata.annotations:
            written[TRACE_KEY] = trace
        self.sent(grant, written)
        labels = written_labels(self._registry, pod, grant)
        return BindingTarget(name=name, grant=grant, annotations=written, labels=labels)

    def sent(self, grant: Grant, written: Mapping[str, str]) -> None:
        """The grant is on its way to its pod in these annotations."""
        self._pod_reader.signed(grant, written[GRANT_KEY])

    def whole(self, pod: Pod, grant: Grant) -> dict[str, str]:
        """Everything that is written on a pod with its grant. Raises Unwritable."""
        cards = self._cards(grant.node)
        missing = {share.card for share in grant.shares} - {card.id for card in cards}
        if missing:
            raise Unwritable(f"node {grant.node} no longer shows card {min(missing)}")
        clean, _ = strip_results(self._registry, pod)
        managed = self._ledger.fleet.given.get(grant.node, frozenset())
        now_ns = self._clock.time_ns()
        written = whole_annotations(self._registry, clean, grant, cards, now_ns, managed)
        written[GRANT_KEY] = self._keys.signer.sign(written[GRANT_KEY])
        _check_size(clean.metadata.annotations, written)
        written[TERM_KEY] = self._leadership.term()
        return written

    def changed(self, pod: Pod, old: Grant, new: Grant) -> dict[str, str]:
        """What has to be written on a bound pod so that it carries the second grant instead of the
        first: the grant, its term, and of the dialects' keys those that show amounts and that
        nobody has changed since. Raises Unwritable."""
        clean, _ = strip_results(self._registry, pod)
        now_ns, had = self._clock.time_ns(), pod.metadata.annotations
        managed = self._ledger.fleet.given.get(new.node, frozenset())
        before = written_annotations(
            self._registry, clean, old, self._cards(new.node), now_ns, managed
        )
        return {
            key: value
            for key, value in self.whole(pod, new).items()
            if key in (GRANT_KEY, TERM_KEY)
            or (value != before.get(key) and had.get(key) == before.get(key))
        }

    def _cards(self, node: str) -> tuple[Card, ...]:
        fleet = self._ledger.fleet
        row = fleet.rows.get(node)
        return () if row is None else fleet.facts[row]


def _check_size(had: Mapping[str, str], written: Mapping[str, str]) -> None:
    notes = {**had, **written}
    if (
        sum(map(len, notes)) + sum(map(len, notes.values()))
        <= MOST_ANNOTATION_BYTES // _BYTES_OF_A_CHARACTER
    ):
        return
    size = sum(len(k.encode()) + len(v.encode()) for k, v in notes.items())
    if size > MOST_ANNOTATION_BYTES:
        raise Unwritable(
            f"metadata.annotations: {size} bytes with the grant: a pod may have "
            f"{MOST_ANNOTATION_BYTES}: move what is large to a ConfigMap"
        )
