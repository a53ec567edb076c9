"""A pod's manifest as admission wants it: the JSON patch of the webhook.

Only what differs is patched, amounts by their value (`1024Mi` is `1Gi`), so a pod that comes a
second time, after other webhooks, is left as it is. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from tessera_core.admission.admit import AdmittedPod
from tessera_core.admission.guarded_env import TenantVariable
from tessera_core.kube.json_patch import JsonPatchRecorder, JsonPatchStep, Where
from tessera_core.kube.quantity import BadQuantity, quantity_milli
from tessera_schema.annotation_keys import SCHEDULER, TRACE_KEY
from tessera_schema.kube import Pod, Quantity
from tessera_schema.verdicts import ContainerAfter

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server writes where a pod names no scheduler."""
_NOTES: Final = ("metadata", "annotations")


class PodChanges(Struct, frozen=True, kw_only=True):
    """What a manifest is to become."""

    admission: AdmittedPod | None = None
    """None leaves everything but annotations and variables alone."""
    stripped: Sequence[str] = ()
    """Annotations that go."""
    own: Sequence[TenantVariable] = ()
    """Variables that go."""
    traceparent: str = ""
    """The trace that this admission opened; empty for none."""
    scheduler: str = ""
    """The scheduler's name, where it is to change."""
    gate: str = ""
    """A scheduling gate that the pod gets; empty for none."""
    env: Sequence[tuple[Where, Mapping[str, str]]] = ()
    """Containers, by their places, and variables that they get."""


def patch(document: dict[str, Any], wanted: PodChanges) -> tuple[JsonPatchStep, ...]:
    """The steps from a decoded pod, which is changed, to what is wanted."""
    draft = JsonPatchRecorder(document)
    _patch_notes(draft, wanted)
    _patch_variables(draft, wanted)
    if wanted.admission is not None:
        for kind in ("initContainers", "containers"):
            for i, container in enumerate(draft.get(("spec", kind)) or ()):
                after = wanted.admission.containers.get(container.get("name", ""))
                if after is not None:
                    _patch_container(draft, ("spec", kind, i), container, after)
        runtime = wanted.admission.runtime_class
        if runtime and not draft.get(("spec", "runtimeClassName")):
            draft.put(("spec", "runtimeClassName"), runtime)
    if wanted.scheduler:
        draft.put(("spec", "schedulerName"), wanted.scheduler)
    gates = draft.get(("spec", "schedulingGates")) or ()
    if wanted.gate and all(gate.get("name") != wanted.gate for gate in gates):
        draft.append(("spec", "schedulingGates"), {"name": wanted.gate})
    return draft.steps


def scheduler_for(pod: Pod, *, take_default: bool) -> str:
    """The name that the pod's scheduler is changed to; empty where its own stays."""
    named = pod.spec.scheduler_name
    if not named or (named == DEFAULT_SCHEDULER and take_default):
        return SCHEDULER
    return ""


def _patch_notes(draft: JsonPatchRecorder, wanted: PodChanges) -> None:
    notes = dict(wanted.admission.annotations) if wanted.admission else {}
    if wanted.traceparent:
        notes[TRACE_KEY] = wanted.traceparent
    for key in wanted.stripped:
        if key not in notes:
            draft.drop((*_NOTES, key))
    draft.update(_NOTES, notes)


def _patch_variables(draft: JsonPatchRecorder, wanted: PodChanges) -> None:
    for where, variables in wanted.env:
        for name, value in variables.items():
            _put_variable(draft, (*where, "env"), {"name": name, "value": value})
    for variable in sorted(wanted.own, key=lambda v: (v.kind, v.position, -v.index)):
        draft.drop(("spec", variable.kind, variable.position, "env", variable.index))


def _patch_container(
    draft: JsonPatchRecorder, where: Where, container: Mapping[str, Any], after: ContainerAfter
) -> None:
    resources = container.get("resources") or {}
    for name, amounts in (("limits", after.limits), ("requests", after.requests)):
        before = resources.get(name) or {}
        if before != amounts:
            _patch_amounts(draft, (*where, "resources", name), before, amounts)
    for name, value in after.env.items():
        _put_variable(draft, (*where, "env"), {"name": name, "value": value})


def _patch_amounts(
    draft: JsonPatchRecorder, where: Where, before: Mapping[str, Quantity], after: Mapping[str, str]
) -> None:
    for name in [name for name in before if name not in after]:
        draft.drop((*where, name))
    changed = {n: q for n, q in after.items() if n not in before or not _same(before[n], q)}
    draft.update(where, changed)


def _put_variable(draft: JsonPatchRecorder, where: Where, variable: dict[str, str]) -> None:
    """The last variable of a name counts."""
    env = draft.get(where) or ()
    at = [i for i, had in enumerate(env) if had.get("name") == variable["name"]]
    if not at:
        draft.append(where, variable)
    elif env[at[-1]] != variable:
        draft.put((*where, at[-1]), variable)


def _same(before: Quantity, after: str) -> bool:
    if str(before) == after:
        return True
    try:
        return quantity_milli(before) == quantity_milli(after)
    except BadQuantity:
        return False
