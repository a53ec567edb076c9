"""What the code says and the manifests repeat: `python deploy/kustomize/generate.py`.

The resources that kube-scheduler leaves to the extender, the keys that only Tessera may write, the
dialects with their switches, one agent for each vendor, and Grafana's dashboards. A test holds the
files against this.

    python deploy/kustomize/generate.py --dialects mine.yaml --into overlays/mine/names [--aliases]

writes a component for a cluster whose dialects have names or switches of their own, so that all
services, kube-scheduler and the policies know the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))  # this file is run by its path

from deploy.kustomize import dashboards
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.registry import kube_scheduler_config, registry
from tessera_core.registry.registry import BadConfiguration, DialectRegistry
from tessera_core.trust import fencing as terms
from tessera_scheduler.settings import SchedulerSettings
from tessera_scheduler.webhook import match_conditions
from tessera_schema.annotation_keys import CARDS_LABEL, RESERVE_KEY, SCHEDULER
from tessera_schema.resizes import RESIZE_KEY

ROOT: Final = Path(__file__).parent
HEAD: Final = "# Made by deploy/kustomize/generate.py: edit that.\n"
NAMESPACE: Final = "tessera-system"
FIRST_PORT: Final = 9471
"""Agents are on the host's network: each vendor's has a port of its own."""

REBALANCER: Final = "tessera-rebalancer"
ASKS: Final = (RESIZE_KEY, RESERVE_KEY)
"""Keys by which others ask the scheduler, which alone grants."""

OTHER_SYSTEMS: Final = (
    "system:serviceaccount:kube-system:hami-scheduler",
    "system:serviceaccount:kube-system:hami-device-plugin",
    "system:serviceaccount:volcano-system:volcano-scheduler",
    "system:serviceaccount:kube-system:volcano-device-plugin",
    "system:serviceaccount:koordinator-system:koord-scheduler",
    "system:serviceaccount:koordinator-system:koordlet",
    "system:serviceaccount:kube-system:gpu-admission",
    "system:serviceaccount:kube-system:gpu-manager",
)
"""Who writes other systems' keys in their usual installations."""

OWN_KEYS: Final = (
    "tessera.dev/... and the keys by which schedulers and node plugins tell each other about cards "
    "are written by Tessera alone: leave them as they are"
)
RESIZING: Final = (
    f"{RESIZE_KEY} is for users whose roles let them update pods/resize of this pod: ask an "
    "administrator for the ClusterRole tessera-resizer in this namespace"
)
FOREIGN: Final = (
    "this key records cards of a pod that another system placed, and the account that writes it is "
    "none of those that the policy names. Add the account to the policy tessera-foreign-keys if it "
    "belongs to that system"
)

CONNECTION: Final = {"qps": 1000, "burst": 2000}
"""Calls per second of kube-scheduler: its default of 50 binds some 30 pods a second."""

Json = dict[str, Any]


def files() -> dict[Path, str]:
    """Every generated file and what it holds."""
    known, served = registry.load(), registry.load(installed=True)
    made = {
        "base/scheduler/kube-scheduler.yaml": _text(_scheduling(known, (SCHEDULER,))),
        "base/dialects/dialects.yaml": _text(_switches(known, {})),
        "components/scheduler-aliases/kube-scheduler.yaml": _text(
            _scheduling(known, kube_scheduler_config.profiles(served))
        ),
        "components/scheduler-aliases/names.yaml": _text(_names(served)),
        "components/scheduler-aliases/policies.yaml": _text(_policies_of_names(served)),
        "base/policies/keys.yaml": _text(*_key_policies(known)),
        "base/policies/terms.yaml": _text(*terms.fencing_policy(NAMESPACE).values()),
        "base/agents/kustomization.yaml": _text(_agents(known)),
    }
    ports = {vendor: FIRST_PORT + number for number, vendor in enumerate(known.vendors)}
    for vendor in known.vendors.values():
        text = _text(_agent(vendor, ports[vendor.name]))
        made[f"base/agents/{vendor.name}/kustomization.yaml"] = text
    hooked = [vendor for vendor in known.vendors.values() if vendor.hooked]
    made["components/containerd/nodes.yaml"] = _text(_containerd(hooked, ports))
    drawn = dashboards.files()
    made |= {f"components/prometheus/dashboards/{name}": text for name, text in drawn.items()}
    return {ROOT / name: text for name, text in made.items()}


def component(config: Mapping[str, Json], *, aliases: bool) -> dict[str, str]:
    """The files of a component for dialects with these options. Raises BadConfiguration."""
    known = registry.load(config, installed=True)
    names = kube_scheduler_config.profiles(known) if aliases else (SCHEDULER,)
    made = [
        {"name": f"tessera-{name}", "namespace": NAMESPACE, "behavior": "merge",
         "files": [f"{name}.yaml"]}
        for name in ("dialects", "kube-scheduler")
    ]  # fmt: skip
    return {
        "kustomization.yaml": _text({
            "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
            "configMapGenerator": made, "patches": list(_key_patches(known)),
        }),
        "dialects.yaml": _text(_switches(known, config)),
        "kube-scheduler.yaml": _text(_scheduling(known, names)),
    }  # fmt: skip


def _switches(known: DialectRegistry, config: Mapping[str, Json]) -> Json:
    """Which dialects pods may use, and their options."""
    named = [n for n in known.readers if n not in known.opt_in or n in config]
    return {n: {"enabled": True, **config.get(n, {})} for n in named}


def _key_patches(known: DialectRegistry) -> Iterator[Json]:
    """The conditions of the policies about keys, with the keys of these dialects."""
    for policy in _key_policies(known):
        if policy["kind"] == "ValidatingAdmissionPolicy":
            expression = policy["spec"]["matchConditions"][0]["expression"]
            path = "/spec/matchConditions/0/expression"
            change = [{"op": "replace", "path": path, "value": expression}]
            name = policy["metadata"]["name"]
            yield {
                "patch": yaml.safe_dump(change),
                "target": {"kind": "ValidatingAdmissionPolicy", "name": name},
            }


def _scheduling(known: DialectRegistry, names: tuple[str, ...]) -> Json:
    port = SchedulerSettings().extender.port
    made = kube_scheduler_config.configuration(known, f"http://127.0.0.1:{port}", names)
    return {**made, "clientConnection": CONNECTION}


def _policies_of_names(known: DialectRegistry) -> list[Json]:
    """The patch that gives the policies the names that are served."""
    names = msgspec.json.encode(kube_scheduler_config.profiles(known)).decode()
    return [{"op": "replace", "path": "/spec/variables/1/expression", "value": names}]


def _names(known: DialectRegistry) -> Json:
    """The patch that gives the webhook the names that are served."""
    names = ",".join(kube_scheduler_config.profiles(known))
    env = [{"name": "TESSERA_WEBHOOK_SCHEDULERS", "value": names}]
    pod = {"initContainers": [{"name": "scheduler", "env": env}]}
    return _patch("Deployment", SCHEDULER, pod)


def _patch(kind: str, name: str, pod: Json) -> Json:
    return {
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"template": {"spec": pod}},
    }  # fmt: skip


def _key_policies(known: DialectRegistry) -> Iterator[Json]:
    """Who may write the keys by which cards are recorded on pods.

    Keys of Tessera's own group are its own on every pod. The keys of other systems are guarded on
    the pods that Tessera places; on all other pods a stranger who writes them is only reported,
    until the component `strict-keys` has the API server refuse it.
    """
    pods, bindings = ("pods", "pods/status"), ("pods/binding", "bindings")
    own, others = (
        match_conditions.changes_own_keys(ASKS),
        match_conditions.changes_others_keys(known),
    )
    yield from _policy("tessera-pods", "UPDATE", pods, own, (SCHEDULER,))
    reserves = match_conditions.changes((RESERVE_KEY,))
    yield from _policy("tessera-asks", "UPDATE", pods, reserves, (SCHEDULER, REBALANCER))
    resizes = match_conditions.changes((RESIZE_KEY,))
    yield from _policy(
        "tessera-resizes", "UPDATE", pods, resizes, (SCHEDULER, REBALANCER),
        or_else=match_conditions.may_resize(), message=RESIZING,
    )  # fmt: skip
    has_own = match_conditions.has_own_keys()
    yield from _policy("tessera-bindings", "CREATE", bindings, has_own, (SCHEDULER,))
    placed = {"schedulers": [SCHEDULER]}
    own = match_conditions.is_placed_by("variables.schedulers")
    yield from _policy(
        "tessera-results", "UPDATE", pods, others, (SCHEDULER,), lists=placed, or_else=f"!({own})"
    )
    yield from _policy(
        "tessera-foreign-keys", "UPDATE", pods, others, (SCHEDULER,), OTHER_SYSTEMS, lists=placed,
        or_else=own, message=FOREIGN, actions=("Warn", "Audit"),
    )  # fmt: skip


def _policy(  # noqa: PLR0913  (the parts of two manifests)
    name: str, operation: str, resources: tuple[str, ...], matters: str, who: tuple[str, ...],
    others: tuple[str, ...] = (), *, lists: Mapping[str, Sequence[str]] = {}, or_else: str = "",
    message: str = OWN_KEYS, actions: tuple[str, ...] = ("Deny",),
) -> Iterator[Json]:  # fmt: skip
    """A policy and its binding: a write that `matters` (CEL) is for the accounts `who` of our
    namespace and the users `others`, `or_else` (CEL) for all users to which that applies. `lists`
    are further variables of the policy."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation],
        "resources": list(resources),
    }  # fmt: skip
    accounts = [f"system:serviceaccount:{NAMESPACE}:{account}" for account in who]
    variables = {"writers": [*accounts, *others], **lists}
    written = "request.userInfo.username in variables.writers"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "our-keys", "expression": matters}],
        "variables": [
            {"name": n, "expression": msgspec.json.encode(v).decode()} for n, v in variables.items()
        ],
        "validations": [{
            "expression": f"{written} || {or_else}" if or_else else written,
            "message": message,
            "reason": "Forbidden",
        }],
    }  # fmt: skip
    common: Json = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    yield {"kind": "ValidatingAdmissionPolicy", **common, "spec": spec}
    binding = {"policyName": name, "validationActions": list(actions)}
    yield {"kind": "ValidatingAdmissionPolicyBinding", **common, "spec": binding}


def _agents(known: DialectRegistry) -> Json:
    return _kustomization(resources=["access", *known.vendors])


def _agent(vendor: Vendor, port: int) -> Json:
    variables = {"TESSERA_VENDOR": vendor.name, "TESSERA_HTTP_PORT": str(port)}
    variables |= vendor.agent_env
    container = {
        "name": "agent",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "ports": [{"name": "metrics", "containerPort": port}],
    }
    pod = {"affinity": _nodes_of([vendor]), "containers": [container]}
    patch = _patch("DaemonSet", "tessera-agent", pod)
    target = {"kind": "DaemonSet"}
    pairs = {"app.kubernetes.io/component": vendor.name}
    return _kustomization(
        resources=["../daemonset"],
        **({"components": ["../hook"]} if vendor.hooked else {}),
        nameSuffix=f"-{vendor.name}",
        labels=[{"pairs": pairs, "includeSelectors": True, "includeTemplates": True}],
        patches=[{"patch": yaml.safe_dump(patch, sort_keys=False), "target": target}],
    )


def _containerd(vendors: Sequence[Vendor], ports: Mapping[str, int]) -> Json:
    """The patch by which containerd is configured where an agent runs that has to be required."""
    asked = ",".join(f"http://127.0.0.1:{ports[vendor.name]}/readyz" for vendor in vendors)
    container = {"name": "containerd", "env": [{"name": "TESSERA_AGENTS", "value": asked}]}
    pod = {"affinity": _nodes_of(vendors), "containers": [container]}
    return _patch("DaemonSet", "tessera-containerd", pod)


def _nodes_of(vendors: Sequence[Vendor]) -> Json:
    """The nodes on which agents of these vendors run."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        for vendor in vendors
        for key, value in {CARDS_LABEL: vendor.name, **vendor.labels}.items()
    ]
    where = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": where}


def _kustomization(**parts: object) -> Json:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **parts,
    }  # fmt: skip


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, lists indented, no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002  (its base's)
        super().increase_indent(flow, indentless=False)


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _block)


def _text(*documents: object) -> str:
    return HEAD + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100)


def _stale() -> Iterator[Path]:
    """Files that the code does not ask for any more."""
    wanted = files()
    for path in (ROOT / "base").rglob("*.yaml"):
        if path not in wanted and path.read_text(encoding="utf-8").startswith(HEAD):
            yield path


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all files, or a component for dialects of one's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialects", type=Path, help="dialect -> option -> value, in YAML")
    parser.add_argument("--into", type=Path, help="the component's folder")
    parser.add_argument("--aliases", action="store_true", help="with `scheduler-aliases`")
    said = parser.parse_args(arguments)
    if (said.dialects is None) != (said.into is None):
        parser.error("--dialects and --into go together: give both, or none")
    if said.dialects is None:
        for path in _stale():
            path.unlink()
        _write(files())
        return 0
    try:
        config = msgspec.yaml.decode(said.dialects.read_bytes(), type=dict[str, Json])
        made = component(config, aliases=said.aliases)
    except (OSError, msgspec.DecodeError, BadConfiguration) as e:
        parser.error(f"--dialects {said.dialects}: {e}")
    _write({said.into / name: text for name, text in made.items()})
    return 0


def _write(made: Mapping[Path, str]) -> None:
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
