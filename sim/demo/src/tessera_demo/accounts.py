"""The accounts of the demo's services, with the roles that an installation gives them: read from
`deploy/kustomize`, so that what they may do here is what they may do in a cluster.

An agent's token says its node, as the token of a pod does: the policies on nodes compare it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tessera_demo.installation import BASE
from tessera_embedded.apiserver.access import MASTERS, Account, Rule

SCHEDULER: Final = "tessera-scheduler"
AGENT: Final = "tessera-agent"
QUOTA: Final = "tessera-quota"
REBALANCER: Final = "tessera-rebalancer"
RESIZER: Final = "dora"
"""A user who may resize the pods of the second act."""
EDITOR: Final = "emil"
"""A user who may change them, and not resize."""
PLUGIN: Final = "system:serviceaccount:kube-system:gpu-manager"
"""The kubelets and the vendors' own plugins, which write on pods what they gave."""
_NAMESPACE: Final = "tessera-system"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_OWN: Final = {
    SCHEDULER: "scheduler", AGENT: "agents/access", QUOTA: "quota", REBALANCER: "rebalancer",
}  # fmt: skip
"""Service -> the folder with its account."""
_CLIENTS: Final = Rule(
    ("get", "list", "watch"), ("configmaps",), names=("extension-apiserver-authentication",),
    namespaces=("kube-system",),
)  # fmt: skip
"""Kubernetes' own role `extension-apiserver-authentication-reader`, which the scheduler has too."""
_EDITS: Final = Rule(("get", "patch"), ("pods",))


def accounts(nodes: Iterable[str]) -> list[Account]:
    """Every account of the demo, an agent's once for each node."""
    rules = {service: _rules(BASE / folder / "account.yaml") for service, folder in _OWN.items()}
    components = (BASE.parent / "components" / name for name in ("gangs", "preemption"))
    rules[SCHEDULER] += (_CLIENTS, *(r for c in components for r in _rules(c / "access.yaml")))
    services = [
        Account(_user(service), rules[service], _groups(), token=service)
        for service in (SCHEDULER, QUOTA, REBALANCER)
    ]
    agents = [
        Account(
            _user(AGENT), rules[AGENT], _groups(), token=token_of(AGENT, node),
            extra={_NODE_NAME: (node,)},
        )
        for node in nodes
    ]  # fmt: skip
    resizes = Rule(("update", "patch"), ("pods/resize",))
    return [
        *services, *agents, Account(PLUGIN, groups=(MASTERS,)),
        Account(RESIZER, (_EDITS, resizes)), Account(EDITOR, (_EDITS,)),
    ]  # fmt: skip


def token_of(service: str, node: str = "") -> str:
    """The name of a service's token; an agent has one for each node."""
    return f"{service}@{node}" if node else service


def write_tokens(folder: Path) -> None:
    """Put every token of the API server whose folder this is into a file of its own."""
    tokens = msgspec.json.decode((folder / "tokens.json").read_bytes(), type=dict[str, str])
    made = folder / "tokens"
    made.mkdir(exist_ok=True)
    for name, token in tokens.items():
        (made / name).write_text(token)
    config = msgspec.json.decode((folder / "kubeconfig").read_bytes())
    config["users"] = [{"name": "admin", "user": {"token": tokens[PLUGIN]}}]
    (folder / "kubelet.kubeconfig").write_bytes(msgspec.json.encode(config))


def _user(service: str) -> str:
    return f"system:serviceaccount:{_NAMESPACE}:{service}"


def _groups() -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{_NAMESPACE}")


def _rules(file: Path) -> tuple[Rule, ...]:
    """What the roles of the file allow. Each of them is bound to the file's own account."""
    return tuple(
        rule
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if document["kind"] in ("ClusterRole", "Role") and not document["metadata"].get("labels")
        for rule in _of_role(document)
    )


def _of_role(role: Mapping[str, Any]) -> Iterator[Rule]:
    namespace = role["metadata"].get("namespace", "")
    for rule in role["rules"]:
        if "resources" in rule:
            yield Rule(
                verbs=tuple(rule["verbs"]), resources=tuple(rule["resources"]),
                groups=tuple(rule["apiGroups"]), names=tuple(rule.get("resourceNames", ())),
                namespaces=(namespace,) if namespace else (),
            )  # fmt: skip
