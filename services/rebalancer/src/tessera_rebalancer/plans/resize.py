"""Live resizes: requested of the scheduler by an annotation, answered by the grant's next revision.

Only the scheduler changes the ledger. It answers by removing the request: with a grant of a larger
revision when it agrees, with a sentence when it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from tessera_core.fleet.cores import milli
from tessera_core.kube.quantity import quantity_value
from tessera_rebalancer.plan_settings import PaceSettings
from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.kube.patches import annotate
from tessera_runtime.plans.plan_store import PlanObject
from tessera_schema.grants import GRANT_KEY, Grant, UnknownGrantVersion, decode_grant
from tessera_schema.kube import Pod
from tessera_schema.plans import PlanStep, PodOfPlan
from tessera_schema.resizes import (
    RESIZE_KEY,
    RESIZE_REFUSED_KEY,
    Resize,
    ShareChange,
    encode_resize,
)

_log: Final = logs.named("tessera.rebalancer.plans.resizing")


class ResizeRequester:
    """Requests resizes, and waits for the answers."""

    def __init__(self, kube: Kube, pace: PaceSettings) -> None:
        self._kube = kube
        self._pace = pace

    async def resize(self, plan: PlanObject) -> str:
        """Resize all pods' shares as the plan says. Returns why not; empty when it is done. Pods go
        one after the other, and what earlier ones were granted stays."""
        pods = dict.fromkeys(step.pod for step in plan.spec.steps)
        for number, pod in enumerate(pods):
            steps = [step for step in plan.spec.steps if step.pod == pod]
            why = await self._resize_pod(plan.name, pod, steps)
            if why:
                so_far = f" ({number} of {len(pods)} pods were resized)" if number else ""
                return f"{pod.namespace}/{pod.name}: {why}{so_far}"
        return ""

    async def _resize_pod(self, plan: str, of: PodOfPlan, steps: Sequence[PlanStep]) -> str:
        key, text = PodKey(of.namespace, of.name, of.uid), encode_resize(_request(plan, steps))
        now = asyncio.get_running_loop().time
        began, requested = now(), False
        while now() - began < self._pace.resize_s:
            try:
                pod = await read_back(self._kube, key)
                if pod is None or pod.terminal:
                    return "it is gone"
                answer = _answer(pod, steps, requested=requested)
                if answer is not None:
                    return answer
                if pod.metadata.annotations.get(RESIZE_KEY) != text:
                    changes = {RESIZE_KEY: text}
                    await annotate(
                        self._kube, paths.pod(of.namespace, of.name), changes, uid=of.uid
                    )
                requested = True
            except Transient as e:
                _log.info("not asked yet", pod=f"{of.namespace}/{of.name}", why=str(e))
            except (ApiConflict, ApiNotFound):
                return "it is gone"
            except ApiRefused as e:
                return str(e)
            await asyncio.sleep(self._pace.look_s)
        await self._withdraw(key)
        return f"the scheduler did not answer within {self._pace.resize_s:g} s"

    async def _withdraw(self, key: PodKey) -> None:
        try:
            path = paths.pod(key.namespace, key.name)
            await annotate(self._kube, path, {RESIZE_KEY: None}, uid=key.uid)
        except (ApiRefused, Transient) as e:
            _log.warning("question not taken back", pod=key.name, why=str(e))


def _answer(pod: Pod, steps: Sequence[PlanStep], *, requested: bool) -> str | None:
    """What the scheduler has answered: why not, or empty for yes; None = nothing yet."""
    notes = pod.metadata.annotations
    if _is_granted(pod, steps):
        return ""
    if requested and RESIZE_KEY not in notes:
        return notes.get(RESIZE_REFUSED_KEY) or "the question was taken away, and nothing granted"
    return None


def _is_granted(pod: Pod, steps: Sequence[PlanStep]) -> bool:
    """Whether the pod's grant has what the steps request."""
    try:
        text = pod.metadata.annotations.get(GRANT_KEY, "")
        grant = decode_grant(text)
    except (UnknownGrantVersion, msgspec.DecodeError):
        return False
    return all(_has(grant, step) for step in steps)


def _has(grant: Grant, step: PlanStep) -> bool:
    wanted = _change(step)
    memory, cores = wanted.memory_bytes, wanted.cores_percent
    return any(
        (memory is None or share.memory_bytes == memory)
        and (cores is None or milli(share.cores_percent) == milli(cores))
        for share in grant.shares
        if (share.container, share.card) == (step.container, step.card)
    )


def _request(plan: str, steps: Sequence[PlanStep]) -> Resize:
    return Resize(plan=plan, changes=tuple(_change(step) for step in steps))


def _change(step: PlanStep) -> ShareChange:
    return ShareChange(
        container=step.container, card=step.card, cores_percent=step.cores,
        memory_bytes=quantity_value(step.memory) if step.memory else None,
    )  # fmt: skip
