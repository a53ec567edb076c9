"""Takes down what Tessera's services wrote themselves, before `helm uninstall` takes the rest.

The steps are those of deploy/kustomize/uninstall.sh, in an order in which nothing is left behind
that refuses pods: agents take back what they advertise on their nodes, the scheduler ends, and then
its webhooks and its API go. It runs in a Job, with the account tessera-uninstall, and needs nothing
but Python. `helm uninstall` waits for it.
"""

import argparse
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME = "namespaces/tessera-system"
AGENTS = f"/apis/apps/v1/{HOME}/daemonsets?labelSelector=app.kubernetes.io%2Fname%3Dtessera-agent"
PODS = f"/api/v1/{HOME}/pods?labelSelector=app.kubernetes.io%2Fname%3Dtessera-scheduler"
SCHEDULER = f"/apis/apps/v1/{HOME}/deployments/tessera-scheduler"
LEASES = f"/apis/coordination.k8s.io/v1/{HOME}/leases"
REGISTERED = (
    # Before any namespace: the deletion of one waits for every APIService that nobody answers.
    "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.tessera.dev",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tessera",
)
WRITTEN = (
    f"/api/v1/{HOME}/secrets/tessera-grant-signing",
    f"/api/v1/{HOME}/secrets/tessera-webhook-certificate",
    f"/api/v1/{HOME}/configmaps/tessera-grant-keys",
    f"/api/v1/{HOME}/configmaps/tessera-packing-history",
    f"/api/v1/{HOME}/configmaps/tessera-queue-history",
)
"""What the scheduler made for itself."""
LET_GO = {"name": "TESSERA_INVENTORY_ADVERTISE", "value": "false"}
REQUIRED = f"/api/v1/{HOME}/configmaps/tessera-agent-required"
"""There while container runtimes require the agent: the value uninstall.runtimeRequiresAgent."""
REFUSED = (
    "nodes' container runtimes require the agent: first take required_plugins out of every node's "
    "containerd configuration and restart containerd, or no container starts there once the agent "
    "is gone. Then delete the ConfigMap tessera-agent-required and run `helm uninstall` again"
)

DAEMONSETS = f"/apis/apps/v1/{HOME}/daemonsets"
CONTAINERD = f"{DAEMONSETS}?labelSelector=app.kubernetes.io%2Fname%3Dtessera-containerd"
CONFIGURED = (
    "the component containerd has nodes' container runtimes require the agent: no container would "
    "start there once the agent is gone. First run `kubectl -n tessera-system set env "
    "daemonset/tessera-containerd TESSERA_MODE=remove`, wait for `kubectl -n tessera-system "
    "rollout status daemonset/tessera-containerd`, and run `helm uninstall` again"
)

Json = dict[str, Any]


class Cluster:
    """The API server, as the account of the pod sees it."""

    def __init__(self, url: str, account: Path) -> None:
        self._url = url
        self._token = (account / "token").read_text()
        self._tls = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def get(self, path: str) -> Json:
        """An object, or a list of objects."""
        return self._call("GET", path)

    def patch(self, path: str, change: Json) -> None:
        """Change an object, lists by the names of their elements; nothing where there is none."""
        self._call("PATCH", path, change, "application/strategic-merge-patch+json")

    def delete(self, path: str) -> None:
        """Delete an object, if there is one."""
        self._call("DELETE", path)

    def _call(self, verb: str, path: str, body: Json | None = None, kind: str = "") -> Json:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=verb)  # noqa: S310  (https)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:  # noqa: S310
                found: Json = json.load(answer)
                return found
        except urllib.error.HTTPError as e:
            if e.code == 404:
                return {}
            answer = e.read(2000).decode(errors="replace")
            raise SystemExit(f"uninstall: {verb} {path}: {e.code} {answer}") from e


def main() -> None:
    """All steps. Raises SystemExit where one is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default=_own_url(), help="the API server")
    parser.add_argument("--account", type=Path, default=ACCOUNT, help="folder of token and ca.crt")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds of each wait")
    said = parser.parse_args()
    cluster = Cluster(said.url, said.account)
    if cluster.get(REQUIRED):
        raise SystemExit(f"uninstall: {REFUSED}")
    if any(map(_configures, cluster.get(CONTAINERD).get("items", ()))):
        raise SystemExit(f"uninstall: {CONFIGURED}")
    _let_go_of_amounts(cluster, said.patience)
    _end_the_scheduler(cluster, said.patience)
    for path in (*REGISTERED, *WRITTEN, *_leases(cluster)):
        cluster.delete(path)
        _say(f"deleted {path}")


def _configures(daemonset: Json) -> bool:
    """Whether nodes may have what the component wrote: it has not taken all of it back."""
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    status, written = daemonset.get("status", {}), {"name": "TESSERA_MODE", "value": "remove"}
    there = status.get("desiredNumberScheduled", 0)
    back = min(status.get("updatedNumberScheduled", 0), status.get("numberReady", 0))
    seen = status.get("observedGeneration", 0) >= daemonset["metadata"]["generation"]
    return written not in container["env"] or not seen or back < there


def _let_go_of_amounts(cluster: Cluster, patience: float) -> None:
    """The names that agents wrote into their nodes' status go while the agents still run."""
    container = {"name": "agent", "env": [LET_GO]}
    for agent in cluster.get(AGENTS).get("items", ()):
        name = agent["metadata"]["name"]
        cluster.patch(
            f"/apis/apps/v1/{HOME}/daemonsets/{name}",
            {"spec": {"template": {"spec": {"containers": [container]}}}},
        )
        _say(f"{name} lets go of what it advertises")
    nodes: list[str] = []
    until = time.monotonic() + patience
    while time.monotonic() < until:
        nodes = list(_advertised(cluster))
        if not nodes:
            return
        time.sleep(1)  # noqa: TID251  (a program that waits)
    _say(f"amounts stay in the status of nodes whose agents do not answer: {' '.join(nodes)}")


def _advertised(cluster: Cluster) -> Iterator[str]:
    """Nodes with amounts that an agent advertises."""
    for node in cluster.get("/api/v1/nodes").get("items", ()):
        notes = node["metadata"].get("annotations") or {}
        for key, text in notes.items():
            if key.startswith("cards.tessera.dev/") and '"advertises":{"' in text:
                yield node["metadata"]["name"]
                break


def _end_the_scheduler(cluster: Cluster, patience: float) -> None:
    """It writes its registrations again while it runs, so it ends before they are deleted."""
    cluster.patch(SCHEDULER, {"spec": {"replicas": 0}})
    until = time.monotonic() + patience
    while pods := cluster.get(PODS).get("items", ()):
        if time.monotonic() > until:
            names = " ".join(pod["metadata"]["name"] for pod in pods)
            raise SystemExit(f"uninstall: still running: {names}. Delete them and try again")
        time.sleep(1)  # noqa: TID251  (a program that waits)
    _say("the scheduler has ended")


def _leases(cluster: Cluster) -> Iterator[str]:
    """Those of the replicas, each named after its pod."""
    for lease in cluster.get(LEASES).get("items", ()):
        name = lease["metadata"]["name"]
        if name.startswith("tessera-scheduler-"):
            yield f"{LEASES}/{name}"


def _own_url() -> str:
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")  # noqa: TID251  (as every pod has it)
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")  # noqa: TID251
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _say(what: str) -> None:
    print(f"uninstall: {what}", file=sys.stderr, flush=True)  # noqa: T201  (the Job's log)


if __name__ == "__main__":
    main()
