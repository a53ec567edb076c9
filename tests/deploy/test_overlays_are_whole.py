"""Every overlay, and components in combinations that nobody thought of, make manifests that fit
together: what is named is there, every image has a tag, every variable is known to its service."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tessera_agent.settings import AgentSettings
from tessera_console.settings import ConsoleSettings
from tessera_core.registry import registry
from tessera_quota.settings import QuotaSettings
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.settings import load, variables
from tessera_scheduler.settings import SchedulerSettings
from tests.deploy.manifests import (
    COMPONENTS,
    KUSTOMIZE,
    OVERLAYS,
    Container,
    Json,
    combined,
    containers,
    environment,
    named,
    overlay,
    workloads,
)  # fmt: skip

VENDORS = registry.load().vendors
MADE_BY_OTHERS = {
    "tessera-bus": "the component `passwords`, or passwords.sh",
    "tessera-webhook-clients": "kubectl",
    "tessera-webhook-tls": "cert-manager",
    "tessera-nats-tls": "cert-manager",
    "tessera-authority": "cert-manager",
}
NEEDS = {"nats-tls": "cert-manager"}
SIMULATED = "simulated"
"""Its agents run on every node, but on those with real cards."""
LAST = "own-kube-scheduler"
"""Takes away what others change, so its README has it named after them."""
SAME_OBJECTS = ("ha", "nats-tls", "otel", "prometheus", "scheduler-aliases")
"""These patch what others of them patch too."""
COMBINATIONS = [
    (),
    *((one,) for one in COMPONENTS),
    *itertools.combinations(SAME_OBJECTS, 2),
    COMPONENTS,
    tuple(reversed(COMPONENTS)),
]
Settings = AgentSettings | ConsoleSettings | QuotaSettings | RebalancerSettings | SchedulerSettings
SERVICES: Mapping[str, type[Settings]] = {
    "agent": AgentSettings,
    "console": ConsoleSettings,
    "quota": QuotaSettings,
    "rebalancer": RebalancerSettings,
    "scheduler": SchedulerSettings,
}


def with_needs(chosen: tuple[str, ...]) -> tuple[str, ...]:
    needed = (NEEDS[name] for name in chosen if name in NEEDS)
    whole = (*(n for n in dict.fromkeys(needed) if n not in chosen), *chosen)
    return tuple(sorted(whole, key=lambda name: name == LAST))


def check(objects: list[Json]) -> None:
    every_object_is_named_once(objects)
    everything_is_in_our_namespace(objects)
    for container in containers(objects):
        its_image_has_a_tag(container)
        its_volumes_are_there(container)
        its_settings_make_sense(container, objects)
    for item in workloads(objects):
        what_it_names_is_there(item, objects)
        it_selects_its_own_pods(item)
    for item in named(objects, "Service"):
        somebody_answers(item, objects)


def every_object_is_named_once(objects: list[Json]) -> None:
    names = Counter(
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item in objects
    )
    assert {name: count for name, count in names.items() if count > 1} == {}


def everything_is_in_our_namespace(objects: list[Json]) -> None:
    elsewhere = {
        (item["metadata"]["namespace"], item["kind"], item["metadata"]["name"])
        for item in objects
        if item["metadata"].get("namespace", "tessera-system") != "tessera-system"
    }
    assert elsewhere == {
        ("kube-system", "RoleBinding", "tessera-kube-scheduler-authentication"),
        *(
            ("tessera-agent-leases", kind, account)
            for kind in ("Role", "RoleBinding")
            for account in ("tessera-scheduler", "tessera-agent")
        ),
    }


def its_image_has_a_tag(container: Container) -> None:
    name, _, tag = container.spec["image"].rpartition(":")
    assert name, f"{container.name}: {container.spec['image']}: no tag"
    assert tag not in ("", "latest"), container.name
    assert "/" not in tag, container.name


def its_volumes_are_there(container: Container) -> None:
    claims = container.workload["spec"].get("volumeClaimTemplates", ())
    there = {v["name"] for v in container.pod.get("volumes", ())} | {
        c["metadata"]["name"] for c in claims
    }
    wanted = [m["name"] for m in container.spec.get("volumeMounts", ())]
    assert set(wanted) <= there, container.name
    paths = Counter(m["mountPath"] for m in container.spec.get("volumeMounts", ()))
    assert set(paths.values()) <= {1}, container.name


def its_settings_make_sense(container: Container, objects: list[Json]) -> None:
    kind = SERVICES.get(container.spec["name"])
    if kind is None:
        return
    env = environment(container, objects)
    own = {name for name in env if name.startswith("TESSERA_")}
    assert own <= set(variables(kind)), container.name
    load(kind, env)


def what_it_names_is_there(item: Json, objects: list[Json]) -> None:
    pod = item["spec"]["template"]["spec"]
    if "serviceAccountName" in pod:
        assert named(objects, "ServiceAccount", pod["serviceAccountName"])
    else:
        assert pod["automountServiceAccountToken"] is False
    assert named(objects, "PriorityClass", pod["priorityClassName"])
    for kind, name in references(item):
        if not (kind in ("Secret", "ConfigMap") and name in MADE_BY_OTHERS):
            assert named(objects, kind, name), f"{item['metadata']['name']}: {kind} {name}"


def references(item: Json) -> Iterator[tuple[str, str]]:
    for volume in item["spec"]["template"]["spec"].get("volumes", ()):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
    for container in containers([item]):
        for entry in container.spec.get("env", ()):
            if secret := entry.get("valueFrom", {}).get("secretKeyRef"):
                yield "Secret", secret["name"]


def it_selects_its_own_pods(item: Json) -> None:
    if item["kind"] == "Job":
        return  # the API server makes its selector
    labels = item["spec"]["template"]["metadata"]["labels"]
    assert item["spec"]["selector"]["matchLabels"].items() <= labels.items()


def somebody_answers(service: Json, objects: list[Json]) -> None:
    wanted = service["spec"]["selector"].items()
    answering = [
        item
        for item in workloads(objects)
        if wanted <= item["spec"]["template"]["metadata"]["labels"].items()
        and item["spec"].get("replicas", 1)
    ]
    assert len(answering) == 1, service["metadata"]["name"]
    ports = [p for c in containers(answering) for p in c.spec.get("ports", ())]
    for port in service["spec"]["ports"]:
        assert port["targetPort"] in {p["name"] for p in ports} | {
            p["containerPort"] for p in ports
        }


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_is_whole(name: str) -> None:
    check(overlay(name))


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=lambda chosen: "+".join(chosen) or "none")
def test_components_go_together(chosen: tuple[str, ...], tmp_path: Path) -> None:
    check(combined(tmp_path, with_needs(chosen)))


def test_no_two_agents_select_each_others_pods() -> None:
    selectors = [
        tuple(sorted(item["spec"]["selector"]["matchLabels"].items()))
        for item in named(overlay("production"), "DaemonSet")
    ]
    ports = [c.spec["ports"] for c in containers(named(overlay("production"), "DaemonSet"))
             if c.spec["name"] == "agent"]  # fmt: skip
    assert len(set(selectors)) == len(selectors) == len(VENDORS)
    assert len({port["containerPort"] for (port,) in ports}) == len(VENDORS)


@pytest.mark.parametrize("name", [name for name in OVERLAYS if name != SIMULATED])
def test_nodes_are_found_by_the_labels_that_are_in_use(name: str) -> None:
    """Tessera's for every vendor; of NVIDIA's GPU Manager's, Koordinator's, HAMi's and the GPU
    operator's."""
    others = {
        ("nvidia-device-enable", "enable"), ("node-type", "gpu"), ("gpu", "on"),
        ("nvidia.com/gpu.present", "true"),
    }  # fmt: skip
    assert set(VENDORS["nvidia"].labels.items()) == others
    for item in named(overlay(name), "DaemonSet"):
        vendor = item["metadata"]["labels"]["app.kubernetes.io/component"]
        affinity = item["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        each = [expression for term in terms for expression in term["matchExpressions"]]
        assert len(each) == len(terms)  # any one of them is enough
        assert {e["operator"] for e in each} == {"In"}
        wanted = {("tessera.dev/cards", vendor), *VENDORS[vendor].labels.items()}
        assert {(e["key"], value) for e in each for value in e["values"]} == wanted


def test_the_webhook_knows_the_profiles_that_are_served(tmp_path: Path) -> None:
    for chosen, profiles in (
        ((), {"tessera-scheduler"}),
        (("scheduler-aliases",),
         {"tessera-scheduler", "hami-scheduler", "volcano", "koord-scheduler"}),
    ):  # fmt: skip
        objects = combined(tmp_path, chosen)
        (config,) = [c for c in named(objects, "ConfigMap") if "kube-scheduler.yaml" in c["data"]]
        (service,) = [c for c in containers(objects) if c.spec["name"] == "scheduler"]
        (deployment,) = named(objects, "Deployment", "tessera-scheduler")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        served = environment(service, objects)["TESSERA_WEBHOOK_SCHEDULERS"].split(",")
        text = config["data"]["kube-scheduler.yaml"]
        assert set(served) == profiles
        assert {name for name in profiles if f"schedulerName: {name}\n" in text} == profiles
        assert config["metadata"]["name"] in [v.get("configMap", {}).get("name") for v in volumes]


def test_policies_and_webhook_know_the_same_writers(tmp_path: Path) -> None:
    own = "system:serviceaccount:tessera-system:tessera-scheduler"
    for chosen, count in (((), 1), (("migration",), 9)):
        objects = combined(tmp_path, chosen)
        (service,) = [c for c in containers(objects) if c.spec["name"] == "scheduler"]
        env = environment(service, objects)
        settings = load(SchedulerSettings, env)
        writers = policy_variables(objects, "tessera-results")["writers"]
        assert len(writers) == count
        assert writers == [own, *settings.webhook.writers]
        assert policy_variables(objects, "tessera-pods") == {"writers": [own]}


def policy_variables(objects: list[Json], policy: str) -> dict[str, list[str]]:
    (found,) = named(objects, "ValidatingAdmissionPolicy", policy)
    return {v["name"]: json.loads(v["expression"]) for v in found["spec"]["variables"]}


def test_policies_and_webhook_know_the_same_profiles(tmp_path: Path) -> None:
    for chosen in ((), ("scheduler-aliases",)):
        objects = combined(tmp_path, chosen)
        (service,) = [c for c in containers(objects) if c.spec["name"] == "scheduler"]
        served = environment(service, objects)["TESSERA_WEBHOOK_SCHEDULERS"].split(",")
        for name in ("tessera-results", "tessera-foreign-keys"):
            assert set(policy_variables(objects, name)["schedulers"]) == set(served)


def test_other_systems_are_refused_nothing_until_an_administrator_says_so(tmp_path: Path) -> None:
    for chosen, actions in (((), ["Warn", "Audit"]), (("strict-keys",), ["Deny", "Audit"])):
        objects = combined(tmp_path, chosen)
        (bound,) = named(objects, "ValidatingAdmissionPolicyBinding", "tessera-foreign-keys")
        assert bound["spec"]["validationActions"] == actions


def test_ledgers_and_quotas_count_the_same_pods(tmp_path: Path) -> None:
    for chosen, others in (((), False), (("migration",), True)):
        objects = combined(tmp_path, chosen)
        env = {c.spec["name"]: environment(c, objects) for c in containers(objects)}
        assert load(SchedulerSettings, env["scheduler"]).ledger.migration is others
        assert load(QuotaSettings, env["quota"]).count.migration is others
        assert load(RebalancerSettings, env["rebalancer"]).count.migration is others


def test_a_component_says_what_it_is_for() -> None:
    for name in COMPONENTS:
        text = (KUSTOMIZE / "components" / name / "README.md").read_text()
        assert text.startswith(f"# {name}\n"), name
        assert len(text) > 200, name
