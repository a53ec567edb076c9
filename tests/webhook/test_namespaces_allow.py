"""An administrator allows what pods that share cards may not have, kind by kind, with labels of
the namespace; everything that reads pods agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tessera_core.admission.allowances import KINDS, IsolationAllowance, allowed_by, without_effect
from tessera_core.admission.guarded_env import OWN_ENVIRONMENT
from tessera_core.admission.isolation import (
    CAPABILITIES,
    GUARDED_NOTES,
    HARMLESS_FOLDERS,
    LIMIT_FOLDERS,
    MOUNT_POINTS,
    NODE_FOLDERS,
    UNCONFINED,
)  # fmt: skip
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.scheduling.filter import Filter
from tessera_runtime.informers.namespaces import LedgerNamespaces, NamespaceSummary
from tessera_runtime.kube.reflector import WatchEventType
from tessera_scheduler.webhook.namespaces import NamespacePolicies as NotesOf
from tessera_scheduler.webhook.rules import Setting
from tessera_schema.endpoints.extender import ExtenderArgs
from tessera_schema.kube import Pod
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_node
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store
from tests.webhook.setting import REGISTRY, RULES, Json, a_manifest, mutated, validated, why_not

PAGE = (Path(__file__).parents[2] / "docs/isolation.md").read_text()
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
WHOLE: dict[str, dict[str, str]] = {
    "HAMi": {"nvidia.com/gpu": "2"},
    "GPU Manager": {"tencent.com/vcuda-core": "200"},
    "Koordinator": {"koordinator.sh/gpu": "100"},
    "Volcano": {"volcano.sh/gpu-number": "1"},
}


def secured(**context: Any) -> Json:
    return {"container": {"securityContext": context}}


EXAMPLES: dict[str, Json] = {
    "privileged": secured(privileged=True),
    "capabilities": secured(capabilities={"add": ["SYS_ADMIN"]}),
    "proc-mount": secured(procMount="Unmasked"),
    "selinux": secured(seLinuxOptions={"type": "spc_t"}),
    "host-process": {"securityContext": {"windowsOptions": {"hostProcess": True}}},
    "unconfined": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    "shared-processes": {"shareProcessNamespace": True, "initContainers": [{"name": "s"}]},
    "host-pid": {"hostPID": True},
    "host-ipc": {"hostIPC": True},
    "host-paths": {"volumes": [{"name": "v", "hostPath": {"path": "/dev/fuse"}}]},
    "limit-mounts": {"container": {"volumeMounts": [{"name": "v", "mountPath": "/usr/local"}]}},
    "runtime-annotations": {"notes": {"cdi.k8s.io/all": "x"}},
    "resource-claims": {"resourceClaims": [{"name": "c"}]},
}
BY_NAME = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def planned(pod: Json, labels: dict[str, str]) -> tuple[Verdict, str]:
    cluster = Cluster(nodes=[a_node()], namespaces={"team": labels})
    outcome = Planner(REGISTRY, cluster).plan(msgspec.convert(pod, Pod), 0)
    return outcome.verdict, outcome.message


def filtered(pod: Json, labels: dict[str, str]) -> tuple[Verdict, str]:
    ledger = Ledger()
    ledger.put_node("n1", ())
    ledger.set_namespaces({"team": labels})
    args = ExtenderArgs(msgspec.convert(pod, Pod), msgspec.Raw(b'["n1"]'))
    answer = Filter(REGISTRY, ledger, Placer(ledger.fleet, ScreenCache()), DecisionLog()).answer(
        args, 0, 0
    )
    return answer.verdict, answer.message


@BY_NAME
def test_each_kind_has_its_label(kind: IsolationAllowance) -> None:
    pod = a_manifest(SHARE, **EXAMPLES[kind.name])
    status, text = why_not(mutated(pod))
    assert status == 403
    assert text.endswith(f"an administrator allows it with the namespace's label {kind.label}=true")
    assert filtered(pod, {}) == planned(pod, {}) == (Verdict.REJECTED, text)
    labels = {kind.label: "true"}
    setting = Setting(namespace=labels, labels=labels)
    assert mutated(pod, setting).allowed
    assert "mutating webhook" in why_not(validated(pod, setting))[1]
    assert filtered(pod, labels)[0] is Verdict.WAITING
    assert planned(pod, labels)[0] is Verdict.WAITING


@BY_NAME
def test_a_label_allows_nothing_else(kind: IsolationAllowance) -> None:
    others = {other.label: "true" for other in KINDS if other is not kind}
    pod = a_manifest(SHARE, **EXAMPLES[kind.name])
    assert not mutated(pod, Setting(labels=others)).allowed
    for labels in ({kind.label: "yes"}, {kind.label: "false"}, {kind.label.upper(): "true"}):
        assert not mutated(pod, Setting(labels=labels)).allowed


def test_annotations_of_a_namespace_allow_nothing() -> None:
    pod = a_manifest(SHARE, hostPID=True)
    assert not mutated(pod, Setting(namespace={"allow.tessera.dev/host-pid": "true"})).allowed


@pytest.mark.parametrize("system", WHOLE)
def test_pods_with_whole_cards_may_share_memory_with_the_node(system: str) -> None:
    pod = a_manifest(WHOLE[system], hostIPC=True)
    assert mutated(pod).allowed
    assert filtered(pod, {})[0] is Verdict.WAITING
    assert planned(pod, {})[0] is Verdict.WAITING
    assert not mutated(a_manifest(WHOLE[system], hostPID=True)).allowed


def test_a_whole_card_next_to_a_share_is_not_enough() -> None:
    share = {"name": "d", "resources": {"limits": SHARE, "requests": SHARE}}
    pod = a_manifest({"nvidia.com/gpu": "1"}, hostIPC=True, initContainers=[share])
    assert why_not(mutated(pod))[1].startswith("spec.hostIPC: true: ")


@pytest.mark.parametrize("limits", [
    {**SHARE, "nvidia.com/gpucores": "100"},
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"},
])  # fmt: skip
def test_a_part_of_a_card_is_not_enough(limits: dict[str, str]) -> None:
    assert not mutated(a_manifest(limits, hostIPC=True)).allowed


@pytest.mark.parametrize(
    ("label", "value", "warns"),
    [
        ("allow.tessera.dev/hostipc", "true",
         "namespace label allow.tessera.dev/hostipc: no such label, it allows nothing; did you "
         "mean allow.tessera.dev/host-ipc?"),
        ("allow.tessera.dev/everything", "true",
         "namespace label allow.tessera.dev/everything: no such label, it allows nothing; known "
         "are allow.tessera.dev/privileged, "),
        ("allow.tessera.dev/host-ipc", "yes",
         "namespace label allow.tessera.dev/host-ipc=yes: allows nothing; write "),
    ],
)  # fmt: skip
def test_a_label_without_effect_warns(label: str, value: str, warns: str) -> None:
    labels = {label: value}
    assert not allowed_by(labels)
    assert without_effect(labels)[0].startswith(warns)
    (warning,) = mutated(a_manifest(SHARE), Setting(labels=labels)).warnings
    assert warning.startswith(warns[:200])
    planner = Planner(REGISTRY, Cluster(nodes=[], namespaces={"team": labels}))
    assert planner.warnings[0].startswith("namespace team: label ")
    assert mutated(a_manifest({"cpu": "1"}), Setting(labels=labels)).warnings == ()


def test_labels_that_count_do_not_warn() -> None:
    labels = {kind.label: value for kind in KINDS for value in ("true", "false")}
    assert without_effect({**labels, "team": "a"}) == ()
    assert len(without_effect({f"allow.tessera.dev/{i}": "true" for i in range(100)})) == 3


@BY_NAME
def test_the_page_has_every_kind(kind: IsolationAllowance) -> None:
    whole = "yes" if kind.on_whole_cards else "no"
    assert f"| `{kind.label}` | {kind.what} | {kind.why} | {whole} |\n" in PAGE


def test_the_page_has_no_kind_that_is_gone() -> None:
    assert PAGE.count("\n| `allow.tessera.dev/") == len(KINDS)


def test_the_page_has_every_folder_capability_and_annotation() -> None:
    words = (
        *NODE_FOLDERS, *LIMIT_FOLDERS, *HARMLESS_FOLDERS, *MOUNT_POINTS, *GUARDED_NOTES,
        *CAPABILITIES, *UNCONFINED,
    )  # fmt: skip
    missing = [word for word in words if f"`{word}`" not in PAGE]
    assert missing == []


def test_waiting_pods_are_tried_again_when_a_label_allows_more() -> None:
    ledger, changes = Ledger(), []
    sink = LedgerNamespaces(ledger, lambda: changes.append(ledger.allowed_in("team")))
    sink.on_list([NamespaceSummary("team", {})], 0, 0)
    for labels in ({"a": "b"}, {"allow.tessera.dev/host-pid": "true"}, {}):
        sink.on_event(WatchEventType.MODIFIED, NamespaceSummary("team", labels), 0)
    assert changes == [{"host-pid"}, set()]


@pytest.mark.looptime
async def test_only_labels_and_annotations_with_a_meaning_are_remembered() -> None:
    noise = {f"example.com/{i}": "x" * 60 for i in range(100)}
    labels = {"allow.tessera.dev/host-pid": "true", "hami.io/webhook": "ignore", **noise}
    kube = FakeKube(store := a_store(LoopClock()))
    metadata = {"name": "team", "labels": labels, "annotations": {OWN_ENVIRONMENT: "refuse"}}
    body = msgspec.json.encode({"metadata": metadata})
    assert store.handle("POST", "/api/v1/namespaces", body=body).code == 201
    written = await NotesOf(kube, RULES.namespace_keys, 10, 1).written("team")
    assert written.labels == {"allow.tessera.dev/host-pid": "true", "hami.io/webhook": "ignore"}
    assert written.annotations == {OWN_ENVIRONMENT: "refuse"}
