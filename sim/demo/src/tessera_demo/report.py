"""The demo's answer: tables for people, or JSON as `place` gives it, with what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tessera_cli.place.json_output import number
from tessera_core.registry.registry import load
from tessera_demo.containers import container_record
from tessera_demo.observations import ObservedUse
from tessera_demo.promises import Evidence, Promise, grants, limits, words_of
from tessera_demo.scenario import name_of
from tessera_demo.stage import DemoStage
from tessera_demo.trace_tree import tree
from tessera_schema.grants import Grant
from tessera_schema.verdicts import Verdict


def show(console: Console, evidence: Evidence, promises: Sequence[Promise], took_s: float) -> None:
    """Where each pod landed, what it may use, what it was seen to use, and each promise."""
    table = Table(title="What was asked, given and seen", title_justify="left")
    for column in ("pod", "asked", "node", "cards", "may use", "was seen to use"):
        table.add_column(column, overflow="fold")
    made, keys = grants(evidence.seen), load().request_keys
    for pod in evidence.scene.pods:
        name, asked = name_of(pod), requested_amounts(pod, keys)
        if name in made:
            _rows(table, evidence, name, asked, made[name])
        else:
            verdict = "refused" if name in evidence.seen.refused else "waits"
            table.add_row(name, asked, verdict, "", "", words_of(evidence, name))
    console.print(table)
    console.print(f"Pod {evidence.traced} from its admission to its first use of a card:")
    for line in tree(evidence.trace):
        console.print(line, markup=False, highlight=False)
    kinds = Counter(message.type.removeprefix("dev.tessera.") for message in evidence.seen.messages)
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    console.print(f"What was on the bus (tessera events): {counted}")
    for promise in promises:
        mark = "ok    " if promise.kept else "FAILED"
        but = "" if promise.kept else f": {promise.but}"
        console.print(f"{mark} {promise.text}{but}", markup=False, highlight=False)
    passed = sum(promise.kept for promise in promises)
    console.print(f"{passed} of {len(promises)} checks passed in {took_s:.0f} s", highlight=False)


def requested_amounts(pod: Mapping[str, Any], keys: Collection[str]) -> str:
    """What the manifest asks of cards, in its own words. `keys` are the annotations by which pods
    request cards."""
    notes = pod["metadata"].get("annotations", {})
    spec, said = pod["spec"], [", ".join(f"{k}: {v}" for k, v in notes.items() if k in keys)]
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        amounts = container.get("resources", {}).get("limits", {})
        said.append(", ".join(f"{k}: {v}" for k, v in amounts.items() if "/" in k))
    return "; ".join(dict.fromkeys(filter(None, said)))


def _rows(table: Table, evidence: Evidence, name: str, asked: str, grant: Grant) -> None:
    uid = grant.uid
    for container in dict.fromkeys(s.container for s in grant.shares):
        mib, cores = limits(grant, container)
        used = evidence.seen.measured.get((uid, container))
        cards = ", ".join(str(s.index) for s in grant.shares if s.container == container)
        saw = "not measured"
        if used is not None:
            saw = f"{used.memory_mib:.0f} MiB, {used.cores_percent:.1f} % (by {used.by})"
        may = f"{mib:g} MiB, {cores:g} %" if cores else f"{mib:g} MiB, any cores"
        table.add_row(name, asked, grant.node, cards, may, saw)


def stays(stage: DemoStage) -> list[str]:
    """What to do while everything stays, in lines to copy."""
    return [
        "everything stays until you interrupt it (Ctrl-C). In another terminal:",
        f"  export KUBECONFIG={stage.kubeconfig}",
        "  kubectl get pods -A -o wide",
        "  tessera explain too-large-for-now -n hami",
        "  tessera quota -A",
        "  tessera plan list",
        f"  tessera events --url {stage.nats.url}",
    ]


def document(
    stage: DemoStage, evidence: Evidence, promises: Sequence[Promise], took_s: float
) -> dict[str, Any]:
    """The answer as `place` gives it, with `seen` in each pod, and every check after them."""
    made = grants(evidence.seen)
    return {
        "pods": [_pod(stage, evidence, name_of(p), made) for p in evidence.scene.pods],
        "checks": [{"text": p.text, "passed": p.kept, "instead": p.but} for p in promises],
        "seconds": round(took_s, 1),
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
