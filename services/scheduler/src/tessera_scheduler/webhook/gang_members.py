"""What a new pod of a gang or a queue gets: Tessera's scheduler, and the scheduling gate."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.admission.exempt_pods import left_to_others
from tessera_core.admission.pod_patch import scheduler_for
from tessera_core.gangs.gates import GatedPods, gets_gate, names_gang
from tessera_core.gangs.group_names import ADMISSION_GATE
from tessera_scheduler.webhook.rules import Setting, WebhookRules
from tessera_schema.kube import Pod


class MemberChanges(Struct, frozen=True):
    """What the pod gets; each is empty where it stays as it is."""

    scheduler: str = ""
    gate: str = ""


NO_MEMBER: Final = MemberChanges()


def member_changes(rules: WebhookRules, pod: Pod, setting: Setting, *, asks: bool) -> MemberChanges:
    """What the pod gets where gangs start whole. `asks` says that it asks for cards and is
    Tessera's to place. A member without cards is placed by Tessera's kube-scheduler as well, unless
    it names another one: members of a gang with two schedulers never start."""
    if not rules.whole_gangs or not (asks or names_gang(pod)):
        return NO_MEMBER
    if not asks and (pod.spec.node_name or left_to_others(rules.scope, pod, setting.namespace)):
        return NO_MEMBER
    return MemberChanges(
        scheduler=scheduler_for(pod, take_default=rules.scope.take_default),
        gate=ADMISSION_GATE if _gets_gate(rules, pod, asks=asks) else "",
    )


def _gets_gate(rules: WebhookRules, pod: Pod, *, asks: bool) -> bool:
    """A pod without cards is held by nothing else than its gate."""
    if not gets_gate(pod, rules.gated):
        return False
    return not asks or rules.gated is not GatedPods.WHILE_OTHERS_WAIT or rules.others_wait()
