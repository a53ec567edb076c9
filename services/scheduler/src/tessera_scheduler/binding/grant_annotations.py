"""What a grant is written as: the annotations of a Binding, signed.

The books keep a grant without what the dialects give each container (`Grant.given`): that is made
here from the pod, and covered by the signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.admission.admit import strip_results
from tessera_core.admission.pod_size import MOST_ANNOTATION_BYTES
from tessera_core.grants.result_annotations import whole_annotations, written_annotations
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_core.trust.grants import Signer
from tessera_runtime.clock import Clock
from tessera_schema.grants import GRANT_KEY, Grant
from tessera_schema.kube import Pod

_BYTES_OF_A_CHARACTER: Final = 4
"""At most."""


class Unwritable(Exception):
    """The grant cannot be written now; the message says why."""


def binding_annotations(
    registry: DialectRegistry, ledger: Ledger, signer: Signer, pod: Pod, grant: Grant, clock: Clock
) -> dict[str, str]:
    """Everything that the Binding writes on the pod. Raises Unwritable."""
    row = ledger.fleet.rows.get(grant.node)
    cards = () if row is None else ledger.fleet.facts[row]
    missing = {share.card for share in grant.shares} - {card.id for card in cards}
    if missing:
        raise Unwritable(f"node {grant.node} no longer shows card {min(missing)}")
    clean, _ = strip_results(registry, pod)
    by_us = ledger.fleet.given.get(grant.node, frozenset())
    written = whole_annotations(registry, clean, grant, cards, clock.time_ns(), by_us)
    written[GRANT_KEY] = signer.sign(written[GRANT_KEY])
    _check_size(clean.metadata.annotations, written)
    return written


def changed_annotations(
    registry: DialectRegistry,
    ledger: Ledger,
    signer: Signer,
    pod: Pod,
    grants: tuple[Grant, Grant],
    clock: Clock,
) -> dict[str, str]:
    """What has to be written on a bound pod so that it bears the second of two grants instead of
    the first: the grant, and of the dialects' keys those that tell amounts and that nobody has
    changed since. Raises Unwritable."""
    old, new = grants
    row = ledger.fleet.rows.get(new.node)
    cards = () if row is None else ledger.fleet.facts[row]
    clean, _ = strip_results(registry, pod)
    now_ns, had = clock.time_ns(), pod.metadata.annotations
    by_us = ledger.fleet.given.get(new.node, frozenset())
    before = written_annotations(registry, clean, old, cards, now_ns, by_us)
    after = binding_annotations(registry, ledger, signer, pod, new, clock)
    return {
        key: value for key, value in after.items()
        if key == GRANT_KEY or (value != before.get(key) and had.get(key) == before.get(key))
    }  # fmt: skip


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
