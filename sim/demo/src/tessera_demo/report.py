"""The demo's answer: what the closing screen shows, or JSON as `place` gives it, with what was
seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tessera_cli.place.json_output import number
from tessera_demo.containers import container_record
from tessera_demo.observations import ObservedUse
from tessera_demo.progress import Progress
from tessera_demo.promises import Evidence, Promise, grants
from tessera_demo.run import DemoOutcome
from tessera_demo.scenario import name_of
from tessera_demo.screens.closing import ClosingFacts
from tessera_demo.screens.picture import PlayedMoment
from tessera_demo.screens.pod_table import pod_rows
from tessera_demo.screens.waterfall import waterfall
from tessera_demo.stage import DemoStage
from tessera_schema.grants import Grant
from tessera_schema.verdicts import Verdict

_TRACE_WIDTH: Final = 120


def next_lines(outcome: DemoOutcome) -> list[str]:
    """What to type next, in lines to copy; each of them works."""
    if not outcome.stays:
        return ["make demo ARGS=--keep", "make demo ARGS=--checks", "make place"]
    stage = outcome.stage
    return [
        f"export KUBECONFIG={stage.kubeconfig}",
        f"tessera top --nats {stage.nats.url}",
        "tessera explain too-large-for-now -n hami",
        f"tessera events --url {stage.nats.url}",
        "tessera quota -A", "tessera plan list", "kubectl get pods -A -o wide",
        f"less {write_traces(outcome)}",
        f"console: {outcome.progress.console}",
        "Ctrl-C here ends it",
    ]  # fmt: skip


def write_traces(outcome: DemoOutcome) -> Path:
    """Every pod's trace as a waterfall, in a file of the demo's folder. Raises OSError."""
    stage, lines = outcome.stage, list[str]()
    seen = outcome.progress.seen
    for name in sorted(seen.pods):
        spans = stage.collector.trace(seen.trace_of(name))
        if spans:
            lines += [name, *(line.plain for line in waterfall(spans, _TRACE_WIDTH, bar="█"))]
    file = stage.folder / "traces.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def closing_facts(outcome: DemoOutcome) -> ClosingFacts:
    """What the closing screen shows of it."""
    feed, evidence = outcome.progress.feed, outcome.evidence
    feed.settle()
    return ClosingFacts(
        promises=outcome.promises, took_s=outcome.took_s, nodes=feed.occupancy.rows(),
        pods=pod_rows(evidence), traced=evidence.traced, trace=evidence.trace,
        next=next_lines(outcome),
    )  # fmt: skip


def moment(progress: Progress) -> PlayedMoment:
    """What is drawn of the play now."""
    feed, seen = progress.feed, progress.seen
    feed.settle()
    evidence = Evidence(
        scene=progress.scene, seen=seen, explained={}, hooked=(), inside=progress.inside,
        traced="", trace=(),
    )  # fmt: skip
    created = {*seen.pods, *seen.refused}
    return PlayedMoment(
        step=progress.steps[-1] if progress.steps else "starting",
        elapsed_s=progress.elapsed_s, passed=progress.passed, promised=progress.promised,
        console=progress.console, expected=[node.name for node in progress.scene.nodes],
        nodes=feed.occupancy.rows(),
        pods=[row for row in pod_rows(evidence) if row.name in created], events=list(seen.events),
    )  # fmt: skip


def document(outcome: DemoOutcome) -> dict[str, Any]:
    """The answer as `place` gives it, with `seen` in each pod, and every check after them."""
    stage, evidence = outcome.stage, outcome.evidence
    made = grants(evidence.seen)
    return {
        "pods": [_pod(stage, evidence, name_of(p), made) for p in evidence.scene.pods],
        "checks": [_check(promise) for promise in outcome.promises],
        "seconds": round(outcome.took_s, 1),
    }


def _check(promise: Promise) -> dict[str, Any]:
    return {
        "name": promise.name,
        "promised": promise.text,
        "measured": promise.measured,
        "passed": promise.kept,
        "late": promise.late,
        "seconds": round(promise.seconds, 1),
    }


def _pod(
    stage: DemoStage, evidence: Evidence, name: str, made: Mapping[str, Grant]
) -> dict[str, Any]:
    pod: Mapping[str, Any] = evidence.seen.pods.get(name, {})
    grant = made.get(name)
    namespace, _, short = name.partition("/")
    explained = evidence.explained.get(name)
    message = explained.message if explained is not None else ""
    speaks = explained.dialects if explained is not None else ()
    verdict = Verdict.PLACED if grant is not None else Verdict.WAITING
    message = f"placed on {grant.node}" if grant is not None else message
    if name in evidence.seen.refused:
        verdict, message = Verdict.REJECTED, evidence.seen.refused[name]
    dialects = dict.fromkeys(s.dialect for s in grant.shares) if grant is not None else ()
    return {
        "namespace": namespace,
        "name": short,
        "verdict": verdict.value,
        "dialect": ",".join(dialects or speaks),
        "node": grant.node if grant is not None else "",
        "message": message,
        "mutated": _mutated(pod),
        "cards": _cards(grant),
        "annotations": dict(pod.get("metadata", {}).get("annotations", {})),
        "inject": _injected(stage, grant),
        "reasons": [
            {"node": node, "code": why.reason, "message": why.message}
            for node, why in (explained.each_reason() if explained is not None else ())
        ],
        "warnings": [],
        "seen": _usage(evidence, grant),
    }


def _mutated(pod: Mapping[str, Any]) -> dict[str, Any]:
    spec = pod.get("spec", {})
    return {
        c["name"]: {
            "limits": c.get("resources", {}).get("limits", {}),
            "requests": c.get("resources", {}).get("requests", {}),
            "env": {v["name"]: v.get("value", "") for v in c.get("env", [])},
        }
        for c in (*spec.get("initContainers", []), *spec.get("containers", []))
    }


def _cards(grant: Grant | None) -> list[dict[str, Any]]:
    return [
        {
            "container": s.container,
            "id": s.card,
            "index": s.index,
            "memory_mib": s.memory_mib,
            "cores_percent": number(s.cores_percent),
        }
        for s in (grant.shares if grant is not None else ())
    ]


def _injected(stage: DemoStage, grant: Grant | None) -> dict[str, Any]:
    """What the containers on the node really have: their whole environment, and the mounts."""
    if grant is None:
        return {}
    found = {
        container: container_record(stage.node_folder(grant.node), grant.uid, container)
        for container in dict.fromkeys(s.container for s in grant.shares)
    }
    return {
        container: {
            "env": one.container.env,
            "mounts": [
                {"destination": m.destination, "source": m.source, "read_only": m.read_only}
                for m in one.container.mounts
            ],
            "devices": [d.path for d in one.container.devices],
        }
        for container, one in found.items()
        if one is not None
    }


def _usage(evidence: Evidence, grant: Grant | None) -> dict[str, Any]:
    if grant is None:
        return {}
    found: dict[str, ObservedUse | None] = {
        container: evidence.seen.measured.get((grant.uid, container))
        for container in dict.fromkeys(s.container for s in grant.shares)
    }
    return {
        container: {
            "memory_mib": round(used.memory_mib, 1),
            "cores_percent": round(used.cores_percent, 2),
        }
        for container, used in found.items()
        if used is not None
    }
