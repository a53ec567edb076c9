"""What a pod requests, where it asks for cards at all."""

from __future__ import annotations

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest


def card_request(registry: DialectRegistry, ledger: Ledger, pod: Pod | None) -> PodRequest | None:
    """The pod's request, with what its namespace may have; None where it asks for no cards, and
    where it is rejected."""
    if pod is None:
        return None
    admission = admit(registry, pod, allowed=ledger.allowed_in(pod.metadata.namespace))
    if isinstance(admission, AdmittedPod) and admission.request.containers:
        return admission.request
    return None
