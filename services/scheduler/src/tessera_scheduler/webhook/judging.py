"""What the webhook answers: from a review to an answer, without I/O.

Mutating: a valid pod is completed; what only the scheduler or an agent may write is taken away.
Validating: the pod is looked at again as other webhooks left it, and those keys are guarded on
pods that exist. Pods of other schedulers, and pods that opt out, are left alone but for the keys;
they get no share unless Tessera schedules them after all.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tessera_core.admission import Admission, claims_on, strip_results
from tessera_core.dialect import Rejected
from tessera_core.ownenv import own_variables
from tessera_core.patching import DEFAULT_SCHEDULER, Wanted, scheduler_for
from tessera_core.quota import least_use
from tessera_runtime import telemetry
from tessera_scheduler.webhook.answers import allowed, refused, written_by_us
from tessera_scheduler.webhook.changing import EPHEMERAL, mutate_debugging, validate_change
from tessera_scheduler.webhook.reading import read_pod, steps_to
from tessera_scheduler.webhook.rules import Rules, Setting
from tessera_schema.keys import SCHEDULER, TRACE_KEY
from tessera_schema.kube import Pod
from tessera_schema.review import ReviewAnswer, ReviewRequest

MAX_NOTES_KIB: Final = 200
"""Annotations in all. The API server takes 256 KiB; the grant and the result keys need room."""


def mutate(rules: Rules, request: ReviewRequest, setting: Setting) -> ReviewAnswer:
    """The answer of the mutating phase. Raises msgspec.DecodeError for what is no pod."""
    if request.sub_resource == EPHEMERAL:
        return mutate_debugging(rules, request, setting)
    pod = read_pod(request)
    left = _left_alone(rules, pod, setting)
    clean, stripped = _stripped(rules, pod, left_alone=bool(left))
    told = [f"annotation {key}: written by Tessera only: removed" for key in stripped]
    wanted = Wanted(stripped=stripped)
    if left:
        return allowed(request, steps_to(request, wanted), (*told, left))
    admission = rules.admissions.admit(clean)
    if isinstance(admission, Rejected):
        return refused(request, admission)
    if admission is None:
        return allowed(request, steps_to(request, wanted), told)
    own = own_variables(clean, rules.guarded)
    wrong = _too_many_notes(clean) or (own[0].refusal if own and setting.refuses_own else None)
    if wrong is not None:
        return refused(request, wrong)
    asks = bool(admission.request.containers)
    trace = "" if TRACE_KEY in clean.metadata.annotations or not asks else setting.traceparent
    wanted = Wanted(
        admission=admission, stripped=stripped, own=own, traceparent=trace,
        scheduler=scheduler_for(clean, take_default=rules.take_default) if asks else "",
    )  # fmt: skip
    told += [*admission.warnings, *(v.warning for v in own), *_quota_told(admission, setting)]
    return allowed(request, steps_to(request, wanted), told)


def validate(rules: Rules, request: ReviewRequest, setting: Setting) -> ReviewAnswer:
    """The answer of the validating phase. Raises msgspec.DecodeError for what is no pod."""
    if request.operation != "CREATE" or request.kind.kind == "Binding":
        return validate_change(rules, request)
    pod = read_pod(request)
    left = _left_alone(rules, pod, setting)
    clean, left_over = _stripped(rules, pod, left_alone=bool(left))
    if left_over:
        return refused(request, written_by_us(left_over[0]))
    if left:
        return allowed(request)
    admission = rules.admissions.admit(clean)
    if admission is None:
        return allowed(request)
    wrong = admission if isinstance(admission, Rejected) else _unfinished(
        rules, request, clean, admission
    )  # fmt: skip
    return allowed(request) if wrong is None else refused(request, wrong)


def _stripped(rules: Rules, pod: Pod, *, left_alone: bool) -> tuple[Pod, tuple[str, ...]]:
    """The pod without result keys, and their names; a trace stays if it is one. A pod that is
    `left_alone` keeps what another system records on it, and loses our own keys only."""
    clean, stripped = strip_results(rules.registry, pod, own_only=left_alone)
    notes = clean.metadata.annotations
    if TRACE_KEY not in notes or telemetry.well_formed(notes[TRACE_KEY]):
        return clean, stripped
    kept = {k: v for k, v in notes.items() if k != TRACE_KEY}
    metadata = replace(clean.metadata, annotations=kept)
    return replace(clean, metadata=metadata), (*stripped, TRACE_KEY)


def _left_alone(rules: Rules, pod: Pod, setting: Setting) -> str:
    """Why the pod is none of ours, as its author is told; empty when it is."""
    why = _opted_out(rules, pod, setting) or _scheduled_elsewhere(rules, pod)
    return why if why and claims_on(rules.registry, pod) else ""


def _opted_out(rules: Rules, pod: Pod, setting: Setting) -> str:
    for label, value in rules.opt_outs:
        if value in (pod.metadata.labels.get(label), setting.namespace.get(label)):
            return f"label {label}={value}: left alone: Tessera gives this pod no share"
    return ""


def _scheduled_elsewhere(rules: Rules, pod: Pod) -> str:
    named = pod.spec.scheduler_name
    foreign = named not in ("", DEFAULT_SCHEDULER, *rules.schedulers)
    if foreign or (named == DEFAULT_SCHEDULER and not rules.take_default):
        return (
            f"spec.schedulerName: {named}: left alone: Tessera gives this pod no share; "
            f"leave it out, or write {SCHEDULER}"
        )
    return ""


def _unfinished(
    rules: Rules, request: ReviewRequest, pod: Pod, admission: Admission
) -> Rejected | None:
    """What the mutating phase would still change: another webhook came after it, or it was not
    called."""
    own = own_variables(pod, rules.guarded)
    asks = bool(admission.request.containers)
    name = scheduler_for(pod, take_default=rules.take_default) if asks else ""
    steps = steps_to(request, Wanted(admission=admission, own=own, scheduler=name))
    if not steps:
        return _too_many_notes(pod)
    return Rejected(
        field=steps[0].path,
        value="not as Tessera's mutating webhook leaves it",
        remedy="another webhook changed it afterwards, or that one was not called; see "
        "kubectl get mutatingwebhookconfigurations",
    )


def _too_many_notes(pod: Pod) -> Rejected | None:
    size = sum(len(k.encode()) + len(v.encode()) for k, v in pod.metadata.annotations.items())
    if size <= MAX_NOTES_KIB << 10:
        return None
    return Rejected(
        field="metadata.annotations",
        value=f"{-(-size >> 10)} KiB",
        remedy=f"the grant needs room there; keep them within {MAX_NOTES_KIB} KiB, and larger "
        "data in a ConfigMap",
    )


def _quota_told(admission: Admission, setting: Setting) -> list[str]:
    if not admission.request.containers or not setting.allowance.limits:
        return []
    over = setting.allowance.exceeded(least_use(admission.request))
    return [f"{over}: the pod waits until there is room"] if over else []
