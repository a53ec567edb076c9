"""Objects that are too large to be read: answered by their bytes, or by the number of containers,
and by the little that says whether Tessera reviews them.

The API server passes objects of 3 MiB on, most of which it could not store. Reading one would hold
up the loop that also keeps the Lease, so it is refused first. Pods that Tessera has nothing to do
with are let through: the API server writes names and keys plainly, so a pod without their bytes
names none.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from tessera_core.admission.exempt_pods import left_to_others
from tessera_core.admission.pod_size import (
    MOST_BYTES,
    MOST_OBJECTS,
    too_many_bytes,
    too_many_containers,
    too_many_objects,
)
from tessera_core.dialect_kit.contract import Rejected
from tessera_scheduler.webhook.responses import allowed, refused
from tessera_scheduler.webhook.rules import Setting, WebhookRules
from tessera_schema.annotation_keys import GROUP
from tessera_schema.endpoints.admission_review import ReviewAnswer, ReviewRequest
from tessera_schema.json_codec import decoder
from tessera_schema.kube import ObjectMeta, Pod, PodSpec

_OWN = f"{GROUP}/".encode()


class _Labels(Struct, frozen=True):
    labels: Raw = Raw(b"{}")


class _Scheduler(Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _Head(Struct, frozen=True):
    metadata: _Labels = _Labels()
    spec: _Scheduler = _Scheduler()


_head = decoder(_Head)
_labels = decoder(dict[str, str])


def unread(rules: WebhookRules, request: ReviewRequest, setting: Setting) -> ReviewAnswer | None:
    """The answer to a review of an object that is too large to be read; None for all others.
    Raises msgspec.DecodeError for what is no object."""
    objects = [bytes(request.object), bytes(request.old_object)]
    size = max(map(len, objects))
    if size <= MOST_OBJECTS:  # too few bytes for too many of anything
        return None
    wrong = too_many_bytes(size) or too_many_objects(max(text.count(b"{") for text in objects))
    return None if wrong is None else _answer(rules, request, setting, wrong)


def crowded(
    rules: WebhookRules, request: ReviewRequest, pod: Pod, setting: Setting
) -> ReviewAnswer | None:
    """The answer to a review of a new pod of too many containers, before they are read one by one;
    None for all others."""
    wrong = too_many_containers(pod)
    return None if wrong is None else _answer(rules, request, setting, wrong)


def _answer(
    rules: WebhookRules, request: ReviewRequest, setting: Setting, wrong: Rejected
) -> ReviewAnswer:
    new = bytes(request.object)
    if request.is_by(rules.writers) or not rules.named_in(new):
        return allowed(request)
    if _OWN in new:
        return refused(request, wrong)
    head = _head(new)
    labels = bytes(head.metadata.labels)
    few = _labels(labels) if len(labels) < MOST_BYTES else {}
    meta = ObjectMeta(namespace=request.namespace, labels=few)
    pod = Pod(meta, PodSpec(scheduler_name=head.spec.scheduler_name))
    left = left_to_others(rules.scope, pod, setting.namespace)
    return allowed(request, warnings=(left,)) if left else refused(request, wrong)
