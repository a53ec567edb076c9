"""What must have been seen for the demo to end well: pure, one promise a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_demo.observations import Observations, ObservedUse
from tessera_demo.scenario import BEYOND_QUOTA, REFUSED, WAITS, Scenario, name_of
from tessera_embedded.collector import Collected
from tessera_schema.endpoints.visibility import PodExplanation
from tessera_schema.grants import GRANT_KEY, Grant, decode_grant
from tessera_schema.reasons import Reason

OUT_OF_MEMORY: Final = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""
SLACK_POINTS: Final = 5.0
"""By how much a busy container may be seen beyond its cores, in percent of a card: the demo looks
for seconds, and an interval may begin in the middle of a kernel."""
_DENIED: Final = "denied the request: "
"""Stands before a webhook's own words."""
SPANS: Final = 7
INTERVALS: Final = 4
"""Intervals in which a busy container must have been measured: what its hook shows is some points
too high until it has learnt who else is on the card."""


class Promise(Struct, frozen=True):
    """A promise, and whether it was seen to be kept."""

    name: str
    """Of the check: the kind of promise, then pod and container. No other check has this name."""
    text: str
    kept: bool
    measured: str = ""
    """What was seen, or measured."""
    late: bool = False
    """It is not kept in time, and all else that it says was seen: a busy machine is a reason."""
    brief: str = ""
    """What the closing screen says of it in a few words; empty = nothing."""
    seconds: float = 0
    """From the beginning of the play until it was seen to be kept, or decided that it is not."""

    @property
    def kind(self) -> str:
        """The kind of promise."""
        return self.name.partition(" ")[0]


class Inside(Struct, frozen=True, kw_only=True):
    """What was seen in a container that the hook is to hold."""

    lines: Sequence[Mapping[str, Any]] = ()
    """What its process printed."""
    unlike: str = ""
    """Why it is not held by the hook, or not known to be."""


_NOT_SEEN: Final = Inside(unlike="nothing was seen of it")


class Evidence(Struct, frozen=True, kw_only=True):
    """All that was seen."""

    scene: Scenario
    seen: Observations
    explained: Mapping[str, PodExplanation]
    """Pod that waits -> the scheduler's explanation."""
    hooked: Collection[str]
    """Vendors whose containers the hook holds."""
    inside: Mapping[tuple[str, str], Inside]
    """(pod's uid, container) -> what was seen in it, of those vendors' containers."""
    traced: str
    """The pod whose trace it is."""
    trace: Sequence[Collected]
    """Of one pod, from admission to first use."""


def grants(seen: Observations) -> dict[str, Grant]:
    """Pod -> its grant."""
    found = {}
    for name, pod in seen.pods.items():
        text = pod["metadata"].get("annotations", {}).get(GRANT_KEY)
        if text is not None:
            found[name] = decode_grant(text)
    return found


def expected(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of the pods that are to run."""
    return [n for n in map(name_of, pods) if n not in WAITS | REFUSED]


def hooked_containers(grant: Grant, hooked: Collection[str]) -> list[str]:
    """The containers of a pod that the hook is to hold."""
    return list(dict.fromkeys(s.container for s in grant.shares if s.vendor in hooked))


def runs(seen: Observations, name: str) -> bool:
    """True when all containers of the pod run."""
    pod = seen.pods.get(name)
    statuses = pod["status"].get("containerStatuses", []) if pod else []
    return bool(statuses) and all("running" in s["state"] for s in statuses)


def waits(seen: Observations, name: str) -> str:
    """What kube-scheduler says of a pod that waits; empty when it says nothing."""
    pod = seen.pods.get(name)
    conditions = pod["status"].get("conditions", []) if pod else []
    found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return str(found[0].get("message", "")) if found else ""


def words_of(evidence: Evidence, name: str) -> str:
    """Why a pod does not run, as its user reads it: the refusal, or the scheduler's answer."""
    refused = evidence.seen.refused.get(name, "")
    if refused:
        return refused.partition(_DENIED)[2] or refused
    found = evidence.explained.get(name)
    published = (
        [r.message for _, r in found.each_reason() if r.message] if found is not None else []
    )
    return "; ".join(dict.fromkeys(published)) or waits(evidence.seen, name)


def limits(grant: Grant, container: str) -> tuple[float, float]:
    """Memory in MiB and cores in percent of a card, over all cards of a container."""
    shares = [s for s in grant.shares if s.container == container]
    return sum(s.memory_mib for s in shares), sum(s.cores_percent for s in shares)


def enough(seen: Observations, name: str) -> bool:
    """True when each container of a running pod was measured often enough."""
    pod = seen.pods.get(name)
    grant = grants(seen).get(name)
    if pod is None or grant is None:
        return False
    uid = pod["metadata"]["uid"]
    names = {s.container for s in grant.shares}
    return all(
        len(seen.measured.get((uid, container), ObservedUse()).cores) >= INTERVALS
        for container in names
    )


def check_promises(evidence: Evidence) -> list[Promise]:
    """Every promise of the demo."""
    seen, scene = evidence.seen, evidence.scene
    made, running = grants(seen), expected(scene.pods)
    return [
        *(_runs(seen, name, made) for name in running),
        *(_waits(evidence, name) for name in sorted(WAITS)),
        *(_refused(seen, name) for name in sorted(REFUSED)),
        *_inside(evidence, made),
        *(_published(seen, name) for name in running),
        _traced(evidence.trace),
    ]


def _runs(seen: Observations, name: str, made: Mapping[str, Grant]) -> Promise:
    pod = seen.pods.get(name)
    measured = "it is not there" if pod is None else _status(pod)
    kept = runs(seen, name) and name in made
    if kept:
        measured = f"on {made[name].node}"
    elif name not in made:
        measured += ", and it has no grant"
    return Promise(f"runs {name}", f"{name} runs", kept, measured)


def _status(pod: Mapping[str, Any]) -> str:
    states = [s["state"] for s in pod["status"].get("containerStatuses", [])]
    return f"{pod['status'].get('phase', '')} {msgspec.json.encode(states).decode()}"


def shared(made: Mapping[str, Grant]) -> Promise:
    """Of all that was granted."""
    on: dict[tuple[str, str], set[str]] = {}
    for grant in made.values():
        for share in grant.shares:
            on.setdefault((grant.node, share.card), set()).add(share.dialect)
    both = [
        f"{card} on {node}: {', '.join(sorted(d))}" for (node, card), d in on.items() if len(d) > 1
    ]
    measured = "; ".join(both) or "no card has two"
    return Promise("sharing", "pods of two dialects share a card", bool(both), measured)


def _waits(evidence: Evidence, name: str) -> Promise:
    found = evidence.explained.get(name)
    each = [reason for _, reason in found.each_reason()] if found is not None else []
    reasons, quota = {reason.reason for reason in each}, Reason.RESOURCE_QUOTA_NOT_FIT.wire
    wanted = reasons == {quota} if name == BEYOND_QUOTA else bool(reasons - {quota})
    numbers = any(ch.isdecimal() for reason in each for ch in reason.message)
    why = "for its team's quota" if name == BEYOND_QUOTA else "for memory"
    return Promise(
        f"waits {name}",
        f"{name} waits {why}, and is told so in numbers",
        bool(waits(evidence.seen, name)) and wanted and numbers,
        "; ".join((waits(evidence.seen, name), *dict.fromkeys(r.message for r in each))),
    )


def _refused(seen: Observations, name: str) -> Promise:
    words = seen.refused.get(name, "")
    return Promise(
        f"refused {name}",
        f"{name} is refused, with field, value and remedy",
        "vcuda-core" in words and "150" in words,
        words or "it was created",
    )


def _inside(evidence: Evidence, made: Mapping[str, Grant]) -> list[Promise]:
    """What was seen in each container that the hook is to hold, and of its use. One in which
    nothing was seen breaks a promise."""
    promises = []
    for name, grant in made.items():
        for container in hooked_containers(grant, evidence.hooked):
            found = evidence.inside.get((grant.uid, container), _NOT_SEEN)
            promises += _memory(f"{name} {container}", grant, container, found)
            promises += _cores(evidence.seen, f"{name} {container}", grant, container)
    return promises


def _memory(who: str, grant: Grant, container: str, found: Inside) -> list[Promise]:
    cards = [line for line in found.lines if line.get("event") == "card"]
    mib, _ = limits(grant, container)
    total = sum(card["total_mib"] for card in cards)
    over = [card["over_result"] for card in cards]
    return [
        Promise(
            f"hook {who}", f"{who} is held by the hook", not found.unlike,
            found.unlike or "the hook's files are in it",
        ),
        Promise(
            f"memory {who}", f"{who} sees {mib:g} MiB", bool(cards) and total == mib,
            f"it saw {total}",
        ),
        Promise(
            f"beyond {who}",
            f"{who} gets CUDA's out-of-memory beyond them",
            bool(over) and set(over) == {OUT_OF_MEMORY},
            f"the driver answered {over}",
        ),
    ]  # fmt: skip


def _cores(seen: Observations, who: str, grant: Grant, container: str) -> list[Promise]:
    _, cores = limits(grant, container)
    share_count = sum(1 for s in grant.shares if s.container == container)
    if not 0 < cores < 100 * share_count:
        return []
    used = seen.measured.get((grant.uid, container), ObservedUse())
    return [
        Promise(
            f"cores {who}",
            f"{who} is busy and held to {cores:g} % of a card",
            0 < used.cores_percent <= cores + SLACK_POINTS,
            f"it was seen to use {used.cores_percent:.1f} %",
        )
    ]


def _published(seen: Observations, name: str) -> Promise:
    pod = seen.pods.get(name)
    steps = seen.steps(pod["metadata"]["uid"]) if pod else []
    published = bool(steps)  # any of them: a process that is killed takes messages with it
    measured = ", ".join(steps) or "it told nothing"
    return Promise(f"bus {name}", f"the bus told of {name}", published, measured)


def _traced(trace: Sequence[Collected]) -> Promise:
    processes = {(span.service, span.process) for span in trace}
    kept = len(trace) >= SPANS and len(processes) > 1
    text = f"one trace of {SPANS} spans or more over several processes"
    measured = f"{len(trace)} spans of {len(processes)} processes"
    return Promise("trace", text, kept, measured)
