"""`tessera check` reads a real API server, which stores what the embedded one stores for its tests.
Nothing runs there, and that is what the command finds."""

import asyncio
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tessera_cli.check.cluster_reader import read_cluster
from tessera_cli.kubeconfig import ClusterTarget
from tessera_core.preflight.checks import run_checks
from tessera_core.preflight.findings import Finding, FindingState
from tessera_runtime.clock import SystemClock
from tests.contract.client import Json
from tests.deploy.installed import NAMESPACE, Installed
from tests.deploy.manifests import kubectl


async def found_on(installed: Installed) -> dict[str, Finding]:
    target = ClusterTarget(kubeconfig=str(installed.plane.kubeconfig))
    return {one.name: one for one in run_checks(await read_cluster(target, "", SystemClock()))}


async def test_what_is_stored_is_right_and_nothing_runs(installed: Installed) -> None:
    found = await found_on(installed)
    states = {name: one.state for name, one in found.items()}
    well = {
        "kubernetes", "policy-api", "clock", "configuration", "only-once", "policies",
        "runtime-class", "other-plugins",
    }  # fmt: skip
    assert {states[name] for name in well} == {FindingState.OK}
    assert "0 of 1 replicas are ready" in found["services"].found
    assert "webhookconfiguration tessera" in found["webhooks"].found


async def test_the_clock_of_a_node_is_read_from_the_lease(installed: Installed) -> None:
    """It is right again once the node's clock is, and its agent has renewed its Lease."""
    spec = {"leaseDurationSeconds": 45, "renewTime": "2020-01-01T00:00:00.000000Z"}
    path = "/apis/coordination.k8s.io/v1/namespaces/tessera-agent-leases/leases"
    lease: Json = {"metadata": {"name": "agent.nvidia.one"}, "spec": spec}
    async with installed.clients() as clients:
        stored = (await clients["agent"].post(path, lease)).done
        found = (await found_on(installed))["node-clocks"]
        now = datetime.fromtimestamp(SystemClock().time(), UTC).isoformat(timespec="microseconds")
        stored["spec"]["renewTime"] = now.replace("+00:00", "Z")
        answer = await clients["agent"].put(f"{path}/agent.nvidia.one", stored)
        right = (await found_on(installed))["node-clocks"]
        (await clients["admin"].delete(f"{path}/agent.nvidia.one")).done  # noqa: B018  (checks)
    assert "the clock of node one is" in found.found
    assert "behind the API server's" in found.found
    assert "timedatectl set-ntp true" in found.remedy
    assert (answer.status, right.state) == (200, FindingState.OK)


async def test_the_remedy_for_an_old_kube_scheduler_works(
    installed: Installed, tmp_path: Path
) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tessera-scheduler"
    old = "registry.k8s.io/kube-scheduler:v1.31.0"
    body: Json = {"spec": {"template": {"spec": {
        "containers": [{"name": "kube-scheduler", "image": old}],
        "initContainers": [{"name": "image-of-kube-scheduler", "image": old}],
    }}}}  # fmt: skip
    async with installed.clients() as clients:
        patched = await clients["admin"].patch(path, body, "application/strategic-merge-patch+json")
        assert patched.status == 200
    finding = (await found_on(installed))["kube-scheduler"]
    assert finding.state is FindingState.FAILED
    command = finding.remedy.replace("kubectl", kubectl(), 1)
    ran = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", command],
        env={
            "KUBECONFIG": str(installed.plane.kubeconfig),
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (await found_on(installed))["kube-scheduler"].state is FindingState.OK
