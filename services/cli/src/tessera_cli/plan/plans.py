"""RebalancePlans as the API server has them, for people and programs; and decisions about them.

Everything is done with the caller's own rights: a user who may edit plans decides. A decision is
only written down; the rebalancer looks once more whether the plan still holds, and carries it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from rich.text import Text

from tessera_cli.api_objects import list_all, open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget
from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused
from tessera_runtime.kube.api import NONE, Body, Kube, Verb
from tessera_schema.json_codec import decoder
from tessera_schema.plans import PLANS, Decision, PlanPhase, PlanSpec, PlanStatus, PlanStep

_STYLES: Final = {
    PlanPhase.PROPOSED: "yellow", PlanPhase.STARTED: "bold", PlanPhase.DONE: "green",
    PlanPhase.DECLINED: "dim", PlanPhase.FAILED: "bold red",
}  # fmt: skip
_NAME: Final = "tessera-plan-cli"
_HEADS: Final = ("Plan", "Kind", "Phase", "Decision", "Pods", "Cost", "Gain", "Gained", "For")
_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_SOMEBODY: Final = "tessera plan"
"""`decidedBy`, where the API server does not name the user."""
_TRIES: Final = 5
"""A plan's status may be written to while somebody decides."""
_encode: Final = msgspec.json.Encoder().encode


class NoPlan(CommandError):
    """Plans cannot be read or decided on; the message says why, and what would do."""


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""


class PlanRow(Struct, frozen=True):
    """One plan: its spec, name and status."""

    spec: PlanSpec
    metadata: _Meta = _Meta()
    status: PlanStatus = PlanStatus()


class _UserInfo(Struct, frozen=True):
    username: str = ""


class _ReviewStatus(Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _Review(Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


_decode = decoder(PlanRow)
_review = decoder(_Review)


async def list_plans(target: ClusterTarget) -> list[PlanRow]:
    """All plans, the oldest first. Raises NoPlan."""
    async with open_cluster(target, name=_NAME, error=NoPlan) as cluster:
        return await read_all(cluster.kube)


async def read_plan(target: ClusterTarget, name: str) -> PlanRow:
    """One plan. Raises NoPlan."""
    async with open_cluster(target, name=_NAME, error=NoPlan) as cluster:
        return await read_one(cluster.kube, name)


async def decide(
    target: ClusterTarget, name: str, decision: Decision, *, dry_run: bool = False
) -> PlanRow:
    """Approve or decline a plan; the plan as it is then. Raises NoPlan."""
    async with open_cluster(target, name=_NAME, error=NoPlan) as cluster:
        return await write(cluster.kube, name, decision, dry_run=dry_run)


async def read_all(kube: Kube) -> list[PlanRow]:
    """See `list_plans`; raises NoPlan, and as `Kube.call` does."""
    found = await list_all(kube, PLANS, _decode, kind="RebalancePlan", part="a plan", error=NoPlan)
    return sorted(found, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))


async def read_one(kube: Kube, name: str) -> PlanRow:
    """See `read_plan`; raises NoPlan, and as `Kube.call` does."""
    try:
        return _decode(await kube.call(Verb.GET, f"{PLANS}/{name}"))
    except ApiNotFound as e:
        raise NoPlan(
            f"plan {name}: there is none: `tessera plan list` shows those there are"
        ) from e
    except msgspec.DecodeError as e:
        raise NoPlan(f"plan {name} is not of this release's form: {e}") from e


async def write(kube: Kube, name: str, decision: Decision, *, dry_run: bool = False) -> PlanRow:
    """See `decide`; raises NoPlan, and as `Kube.call` does."""
    plan = former = await read_one(kube, name)
    by = await _who(kube)
    query = {"dryRun": "All"} if dry_run else NONE
    for _ in range(_TRIES):
        _check(name, plan, decision)
        # The version: the decision is about this plan, and no other by its name.
        body = {
            "metadata": {"resourceVersion": plan.metadata.resource_version},
            "spec": {"decision": decision, "decidedBy": by},
        }
        try:
            return _decode(await kube.call(
                Verb.PATCH, f"{PLANS}/{name}", query=query, body=_encode(body),
                kind=Body.MERGE_PATCH,
            ))  # fmt: skip
        except ApiConflict:
            plan = await read_one(kube, name)
            if plan.spec != former.spec:
                raise NoPlan(f"plan {name} has changed: look at it again, then decide") from None
        except ApiRefused as e:
            raise NoPlan(f"plan {name} cannot be {decision}: {e.message}") from e
    raise NoPlan(f"plan {name} is being written to all the time: try again")


def _check(name: str, plan: PlanRow, decision: Decision) -> None:
    phase = plan.status.phase
    if phase is not PlanPhase.PROPOSED:
        raise NoPlan(f"plan {name} is {phase}: only a plan that is Proposed can be {decision}")
    if plan.spec.dry_run and decision == "approved":
        raise NoPlan(
            f"plan {name} is a dry run and never carried out: "
            "start the rebalancer without TESSERA_PLANS_DRY_RUN"
        )


async def _who(kube: Kube) -> str:
    """The user, as the API server names it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await kube.call(Verb.POST, _REVIEWS, body=_encode(body))
        return _review(answer).status.user_info.username or _SOMEBODY
    except (ApiRefused, msgspec.DecodeError):
        return _SOMEBODY


# for people


def show(to: Screen, plans: Sequence[PlanRow]) -> None:
    """Print a row for each plan, and below it why."""
    if not plans:
        to.print("no plans")
        return
    notes = (
        (one.metadata.name, one.status.message or one.spec.reason)
        for one in plans
        if one.status.phase in (PlanPhase.PROPOSED, PlanPhase.STARTED, PlanPhase.FAILED)
    )
    to.print_rows(_HEADS, map(_row, plans), notes, unbroken=("Plan", "Phase"))


def detail(to: Screen, plan: PlanRow) -> None:
    """Print everything about one plan."""
    for line in _lines(plan):
        to.print(Text(printable(line)))


def document(plans: Sequence[PlanRow]) -> bytes:
    """The same as JSON."""
    rows = [{"name": p.metadata.name, "spec": p.spec, "status": p.status} for p in plans]
    return _encode({"plans": rows}) + b"\n"


def _row(one: PlanRow) -> Iterator[Text]:
    spec, status = one.spec, one.status
    yield Text(printable(one.metadata.name))
    yield Text(spec.kind)
    yield Text(status.phase, style=_STYLES[status.phase])
    yield Text(_decision(spec))
    yield Text(printable(", ".join(dict.fromkeys(_pod(step) for step in spec.steps))))
    yield Text(_worth(spec.cost))
    yield Text(_worth(spec.gain))
    yield Text("" if status.gained is None else _worth(status.gained))
    waits = spec.for_pod
    gang = spec.for_gang.partition("/")[2]
    yield Text(printable(gang if waits is None else f"{waits.namespace}/{waits.name}"))


def _lines(plan: PlanRow) -> Iterator[str]:
    spec, status = plan.spec, plan.status
    yield f"{plan.metadata.name}: {spec.kind}, {status.phase}, {_decision(spec)}"
    yield f"why: {spec.reason}"
    yield f"costs {spec.cost:.0f} card-seconds, should gain {spec.gain:.0f}"
    for number, step in enumerate(spec.steps):
        done = number < status.steps_done
        mark = "done" if done else "begun" if number < status.steps_begun else "to do"
        yield f"step {number + 1} ({mark}): {_step(step)}"
    if status.started:
        yield f"started {status.started}"
    if status.ended:
        yield f"ended {status.ended}"
    if status.message:
        yield status.message
    if status.gained is not None:
        yield f"gained {status.gained:.0f} card-seconds"


def _worth(card_seconds: float) -> str:
    return f"{card_seconds:.0f} card-s"


def _step(step: PlanStep) -> str:
    if not step.container:
        room = f"; there is room for it on {step.to_node}" if step.to_node else ""
        return f"{_pod(step)} leaves {step.pod.node}{room}"
    amounts = [step.memory] if step.memory else []
    amounts += [f"{step.cores:g} %"] if step.cores is not None else []
    of = f"of card {step.card} on {step.pod.node}"
    return f"{_pod(step)}, container {step.container}: {' and '.join(amounts)} {of}"


def _decision(spec: PlanSpec) -> str:
    by = f" by {spec.decided_by}" if spec.decided_by else ""
    made = f"{spec.decision}{by}" if spec.decision else "nobody has decided"
    return f"dry run, {made}" if spec.dry_run else made


def _pod(step: PlanStep) -> str:
    return f"{step.pod.namespace}/{step.pod.name}"
