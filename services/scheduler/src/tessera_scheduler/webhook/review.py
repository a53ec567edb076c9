"""What the webhook answers: from a review to an answer, without I/O.

Mutating: a valid pod is completed; what only the scheduler or an agent may write is taken away.
Validating: the pod is reviewed again as other webhooks left it, and those keys are guarded on
pods that exist. Pods of other schedulers, and pods that opt out, are left alone but for the keys;
they get no share unless Tessera schedules them after all.
"""

from __future__ import annotations

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, strip_results
from tessera_core.admission.allowances import without_effect
from tessera_core.admission.exempt_pods import left_alone
from tessera_core.admission.guarded_env import tenant_variables
from tessera_core.admission.pod_groups import group_warning
from tessera_core.admission.pod_patch import PodChanges, scheduler_for
from tessera_core.admission.pod_size import too_many_annotations
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.quota.allowance import minimum_usage
from tessera_runtime.tracing import tracing
from tessera_scheduler.webhook.decode import read_pod, steps_to
from tessera_scheduler.webhook.existing_pods import EPHEMERAL, mutate_debugging, validate_change
from tessera_scheduler.webhook.gang_members import NO_MEMBER, member_changes
from tessera_scheduler.webhook.hidden_cards import hidden
from tessera_scheduler.webhook.oversize import crowded
from tessera_scheduler.webhook.responses import allowed, refused, written_by_us
from tessera_scheduler.webhook.rules import Setting, WebhookRules
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.endpoints.admission_review import ReviewAnswer, ReviewRequest
from tessera_schema.kube import Pod


def mutate(rules: WebhookRules, request: ReviewRequest, setting: Setting) -> ReviewAnswer:
    """The answer of the mutating phase. Raises msgspec.DecodeError for what is no pod."""
    if request.sub_resource == EPHEMERAL:
        return mutate_debugging(rules, request, setting)
    pod = read_pod(request)
    many = crowded(rules, request, pod, setting)
    return _mutate(rules, request, pod, setting) if many is None else many


def _mutate(
    rules: WebhookRules, request: ReviewRequest, pod: Pod, setting: Setting
) -> ReviewAnswer:
    left = left_alone(rules.registry, rules.scope, pod, setting.namespace)
    clean, stripped = _stripped(rules, pod, left_alone=bool(left))
    wrong = too_many_annotations(len(stripped))
    if wrong is not None:
        return refused(request, wrong)
    warnings = [f"annotation {key}: written by Tessera only: removed" for key in stripped]
    admission = None if left else rules.admissions.admit(clean, setting.allowed)
    if admission is None:
        member = NO_MEMBER if left else member_changes(rules, clean, setting, asks=False)
        wanted = PodChanges(
            stripped=stripped, env=() if left else hidden(rules, clean, setting),
            scheduler=member.scheduler, gate=member.gate,
        )  # fmt: skip
        changes = stripped or wanted.env or wanted.scheduler or wanted.gate
        steps = steps_to(request, wanted) if changes else ()
        return allowed(request, steps, (*warnings, left) if left else warnings)
    if isinstance(admission, Rejected):
        return refused(request, admission)
    own = tenant_variables(clean, rules.guarded)
    if own and setting.refuses_own:
        return refused(request, own[0].refusal)
    asks = bool(admission.request.containers)
    member = member_changes(rules, clean, setting, asks=asks)
    trace = "" if TRACE_KEY in clean.metadata.annotations or not asks else setting.traceparent
    wanted = PodChanges(
        admission=admission,
        stripped=stripped,
        own=own,
        traceparent=trace,
        scheduler=scheduler_for(clean, take_default=rules.scope.take_default)
        if asks
        else member.scheduler,
        gate=member.gate,
    )
    needless = group_warning(clean) if rules.whole_gangs else ""
    remarks = (warning for warning in admission.warnings if warning != needless)
    warnings += [*without_effect(setting.labels), *remarks, *(v.warning for v in own)]
    warnings += _quota_warnings(admission, setting)
    return allowed(request, steps_to(request, wanted), warnings)


def validate(rules: WebhookRules, request: ReviewRequest, setting: Setting) -> ReviewAnswer:
    """The answer of the validating phase. Raises msgspec.DecodeError for what is no pod."""
    if request.operation != "CREATE" or request.kind.kind == "Binding":
        return validate_change(rules, request, setting)
    pod = read_pod(request)
    many = crowded(rules, request, pod, setting)
    return _validate(rules, request, pod, setting) if many is None else many


def _validate(
    rules: WebhookRules, request: ReviewRequest, pod: Pod, setting: Setting
) -> ReviewAnswer:
    left = left_alone(rules.registry, rules.scope, pod, setting.namespace)
    clean, left_over = _stripped(rules, pod, left_alone=bool(left))
    if left_over:
        return refused(request, written_by_us(left_over[0]))
    if left:
        return allowed(request)
    admission = rules.admissions.admit(clean, setting.allowed)
    if admission is None:
        return allowed(request)
    wrong = (
        admission
        if isinstance(admission, Rejected)
        else _unfinished(rules, request, clean, admission)
    )
    return allowed(request) if wrong is None else refused(request, wrong)


def _stripped(rules: WebhookRules, pod: Pod, *, left_alone: bool) -> tuple[Pod, tuple[str, ...]]:
    """The pod without result keys, and their names; a trace stays if it is one. A pod that is
    `left_alone` keeps what another system records on it, and loses Tessera's own keys only."""
    clean, stripped = strip_results(rules.registry, pod, own_only=left_alone)
    notes = clean.metadata.annotations
    if TRACE_KEY not in notes or tracing.well_formed(notes[TRACE_KEY]):
        return clean, stripped
    kept = {k: v for k, v in notes.items() if k != TRACE_KEY}
    metadata = replace(clean.metadata, annotations=kept)
    return replace(clean, metadata=metadata), (*stripped, TRACE_KEY)


def _unfinished(
    rules: WebhookRules, request: ReviewRequest, pod: Pod, admission: AdmittedPod
) -> Rejected | None:
    """What the mutating phase would still change: another webhook came after it, or it was not
    called."""
    own = tenant_variables(pod, rules.guarded)
    asks = bool(admission.request.containers)
    name = scheduler_for(pod, take_default=rules.scope.take_default) if asks else ""
    steps = steps_to(request, PodChanges(admission=admission, own=own, scheduler=name))
    if not steps:
        return None
    return Rejected(
        field=steps[0].path,
        value="not as Tessera's mutating webhook leaves it",
        remedy="another webhook changed it afterwards, or that one was not called; see "
        "kubectl get mutatingwebhookconfigurations",
    )


def _quota_warnings(admission: AdmittedPod, setting: Setting) -> list[str]:
    if not admission.request.containers or not setting.allowance.limits:
        return []
    over = setting.allowance.exceeded(minimum_usage(admission.request))
    return [f"{over}: the pod waits until there is room"] if over else []
