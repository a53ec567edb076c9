"""Pods that exist: the keys that only Tessera writes, and containers added for debugging."""

from __future__ import annotations

from typing import Final

from tessera_core.admission.admit import claims_on, is_result
from tessera_core.admission.guarded_env import tenant_variables
from tessera_core.admission.isolation import isolation_breach_in_debug_containers
from tessera_core.admission.pod_patch import PodChanges
from tessera_core.admission.pod_size import oversize
from tessera_core.registry.registry import DialectRegistry
from tessera_scheduler.webhook.decode import read_old, read_pod, steps_to
from tessera_scheduler.webhook.responses import allowed, refused, written_by_us
from tessera_scheduler.webhook.rules import Setting, WebhookRules
from tessera_schema.annotation_keys import GROUP
from tessera_schema.endpoints.admission_review import ReviewAnswer, ReviewRequest
from tessera_schema.grants import GRANT_KEY
from tessera_schema.resizes import RESIZE_KEY

EPHEMERAL: Final = "ephemeralcontainers"
_DEBUGGING: Final = ("ephemeralContainers",)


def mutate_debugging(rules: WebhookRules, request: ReviewRequest, setting: Setting) -> ReviewAnswer:
    """The answer of the mutating phase for debug containers. Containers that were there before are
    left alone: the API server lets nobody change them."""
    pod = read_pod(request)
    if not claims_on(rules.registry, pod):
        return allowed(request)
    wrong = oversize(pod)
    if wrong is not None:
        return refused(request, wrong)
    before = len(read_old(request).spec.ephemeral_containers)
    found = tenant_variables(pod, rules.guarded, _DEBUGGING)
    own = tuple(v for v in found if v.position >= before)
    if own and setting.refuses_own:
        return refused(request, own[0].refusal)
    return allowed(request, steps_to(request, PodChanges(own=own)), [v.warning for v in own])


def validate_change(rules: WebhookRules, request: ReviewRequest, setting: Setting) -> ReviewAnswer:
    """Whether the user of the request may make this change of a pod, or this Binding."""
    pod = read_pod(request)
    if request.sub_resource == EPHEMERAL and claims_on(rules.registry, pod):
        wrong = oversize(pod) or isolation_breach_in_debug_containers(pod, setting.allowed)
        if wrong is not None:
            return refused(request, wrong)
    if request.is_by(rules.writers):
        return allowed(request)
    old = read_old(request)
    before, after = old.metadata.annotations, pod.metadata.annotations
    placed = GRANT_KEY in before or pod.spec.scheduler_name in rules.scope.schedulers
    keys = (k for k in {**before, **after} if _is_guarded(rules.registry, k, placed=placed))
    changed = next((k for k in keys if before.get(k) != after.get(k)), "")
    return refused(request, written_by_us(changed)) if changed else allowed(request)


def _is_guarded(registry: DialectRegistry, key: str, *, placed: bool) -> bool:
    """Whether others may not write the key on a pod that exists. `placed`: Tessera places the pod;
    what other systems record on their own pods belongs to them. A resize has a policy of its
    own."""
    own = key.startswith(f"{GROUP}/")
    return is_result(registry, key) and (placed or own) and key != RESIZE_KEY
