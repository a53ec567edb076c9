"""`kubectl apply -k` of an overlay is all, on a real API server with its controllers: the Job's
program makes the passwords and cannot overwrite them, the overlay is applied again, and one command
removes it; `kubectl delete -k` alone leaves nothing that refuses pods. There is no kubelet, so what
the Job would run is run here, with its account's token."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tessera_core.admission.exempt_pods import ManagedPods
from tessera_core.registry.registry import load
from tessera_runtime.errors import ApiForbidden, ApiNotFound
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_scheduler.visibility.apiservice import Address, keep_apiservice
from tessera_scheduler.webhook.registration import (
    RegistrationInput,
    RegistrationSettings,
    open_registration,
)
from tests.contract.client import Client, Json, open_client
from tests.contract.kubebin import kube_bin
from tests.contract.real import ControlPlane, Program, real_control_plane
from tests.contract.session_fixtures import or_skip
from tests.deploy.installed import NAMESPACE
from tests.deploy.manifests import KUSTOMIZE, ROOT, kubectl

OVERLAY: Final = KUSTOMIZE / "overlays" / "single-node"
PROGRAM: Final = ROOT / "deploy" / "images" / "create-passwords"
JOB: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/tessera-passwords"
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
PASSWORDS: Final = f"{SECRETS}/tessera-bus"
ACCOUNTS: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
ROLE: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tessera-scheduler"
REGISTERED: Final = (
    f"{WEBHOOKS}/tessera",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera",
    "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.tessera.dev",
)
"""What the scheduler writes, and no manifest."""
PATIENCE_S: Final = 120.0
LEFT: Final = (
    f"/api/v1/namespaces/{NAMESPACE}", f"{WEBHOOKS}/tessera",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/tessera-scheduler",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/acceleratorquotas.tessera.dev",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/tessera-pods",
)  # fmt: skip
NEXT: Final = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{overlay}]
images:
  - {{name: registry.invalid/tessera/scheduler, newName: registry.example.org/tessera/scheduler}}
"""


class Cluster:
    """An API server with controllers, and `kubectl`."""

    def __init__(self, plane: ControlPlane, admin: Client, folder: Path) -> None:
        self.plane = plane
        self.admin = admin
        self.folder = folder

    async def kubectl(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [kubectl(), f"--kubeconfig={self.plane.kubeconfig}", *words]
        return await asyncio.to_thread(_run, command)

    async def apply(self, overlay: Path = OVERLAY) -> str:
        ran = await self.kubectl("apply", "-k", overlay)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    async def run_the_job(self) -> str:
        """What its container does; what that prints."""
        account = self.folder / "account"
        account.mkdir(exist_ok=True)
        shutil.copy(self.plane.ca_path, account / "ca.crt")
        (account / "namespace").write_text(NAMESPACE)
        (account / "token").write_text(await self.token())
        template = (await self.admin.get(JOB)).done["spec"]["template"]["spec"]
        assert template["serviceAccountName"] == "tessera-passwords"
        (container,) = template["containers"]
        words: list[str] = [*container["command"], *container["args"]]
        assert words.pop(0) == PROGRAM.name
        more = (f"--url={self.plane.url}", f"--account={account}")
        ran = await asyncio.to_thread(_run, [sys.executable, PROGRAM, *words, *more])
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    async def token(self, account: str = "tessera-passwords") -> str:
        made = (await self.admin.post(f"{ACCOUNTS}/{account}/token", {"spec": {}})).done
        return str(made["status"]["token"])

    async def is_gone(self, *paths: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            for path in paths:
                while (await self.admin.get(path)).status != 404:
                    await asyncio.sleep(0.2)

    async def passwords(self) -> Json:
        found: Json = (await self.admin.get(PASSWORDS)).done["data"]
        return found

    async def uninstall(self) -> str:
        command = (KUSTOMIZE / "uninstall.sh", OVERLAY, "--yes")
        env = (
            "TESSERA_RUNTIME_REQUIRES=no",
            f"KUBECTL={kubectl()} --kubeconfig={self.plane.kubeconfig}",
        )
        ran = await asyncio.to_thread(_run, ["env", *env, *command])
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def _run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )  # fmt: skip


def a_next_release(folder: Path) -> Path:
    """A kustomization with another image of the Job."""
    folder.mkdir()
    up = "/".join([".."] * len(folder.resolve().parts[1:]))
    text = NEXT.format(overlay=f"{up}{OVERLAY}")
    (folder / "kustomization.yaml").write_text(text)
    return folder


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncGenerator[Cluster]:
    with or_skip():
        programs = kube_bin("kube-controller-manager")
    async with real_control_plane(folder) as plane:
        controllers = Program(
            [
                programs / "kube-controller-manager", f"--kubeconfig={plane.kubeconfig}",
                "--leader-elect=false", "--secure-port=0", f"--root-ca-file={plane.ca_path}",
                f"--service-account-private-key-file={folder / 'accounts.key'}",
                "--kube-api-qps=200", "--kube-api-burst=400",
            ],
            folder / "kube-controller-manager.log",
        )  # fmt: skip
        controllers.start()
        try:
            async with open_client(plane.url, plane.ca_path, plane.token) as admin:
                yield Cluster(plane, admin, folder)
            controllers.check()
        finally:
            await asyncio.to_thread(controllers.stop)


async def the_job_makes_the_passwords(cluster: Cluster) -> Json:
    assert (await cluster.admin.get(PASSWORDS)).status == 404
    assert await cluster.run_the_job() == "created the Secret tessera-bus\n"
    made = await cluster.passwords()
    assert set(made) == {
        "scheduler", "agent", "quota", "rebalancer", "viewer", "operator", "cluster",
    }  # fmt: skip
    assert len(set(made.values())) == len(made)
    return made


async def it_may_not_read_or_overwrite_them(cluster: Cluster) -> None:
    account = cluster.admin.named(await cluster.token())
    assert (await account.get(PASSWORDS)).status == 403
    assert (await account.get(SECRETS)).status == 403
    assert (await account.patch(PASSWORDS, {"data": {}})).status == 403
    assert (await account.delete(PASSWORDS)).status == 403


async def applying_it_again_changes_nothing(cluster: Cluster, made: Json) -> None:
    assert "job.batch/tessera-passwords unchanged" in await cluster.apply()
    assert await cluster.run_the_job() == "the Secret tessera-bus is there: it stays as it is\n"
    assert await cluster.passwords() == made


async def a_job_that_has_not_ended_is_deleted_first(cluster: Cluster) -> None:
    """As the component's README says."""
    folder = a_next_release(cluster.folder / "next")
    ran = await cluster.kubectl("apply", "-k", folder)
    assert ran.returncode == 1
    assert "field is immutable" in ran.stderr
    assert "deployment.apps/tessera-scheduler configured" in ran.stdout
    ran = await cluster.kubectl("-n", NAMESPACE, "delete", "job", "tessera-passwords")
    assert ran.returncode == 0, ran.stderr
    await cluster.apply(folder)


async def one_command_removes_it(cluster: Cluster) -> None:
    webhook = {
        "name": "admit.tessera.dev", "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            "operations": ["CREATE"],
        }],
        "namespaceSelector": {"matchLabels": {"nobody": "here"}},
        "clientConfig": {"service": {"name": "tessera-scheduler", "namespace": NAMESPACE}},
    }  # fmt: skip
    body: Json = {"metadata": {"name": "tessera"}, "webhooks": [webhook]}
    (await cluster.admin.post(WEBHOOKS, body)).done  # noqa: B018  (checks)
    assert "Tessera is gone from the cluster" in await cluster.uninstall()
    await cluster.is_gone(*LEFT)


@asynccontextmanager
async def installed_by(cluster: Cluster) -> AsyncGenerator[Kube]:
    """The overlay, and calls with the rights of the scheduler's account."""
    await cluster.apply()
    token = cluster.folder / "scheduler-token"
    token.write_text(await cluster.token("tessera-scheduler"))
    plane = cluster.plane
    settings = KubeSettings(url=plane.url, token_file=token, ca_file=plane.ca_path)
    async with open_kube(settings) as kube:
        yield kube


async def register(kube: Kube) -> None:
    """Write what the scheduler registers, as its Deployment configures it."""
    settings = RegistrationSettings(owner="tessera-scheduler")
    terms = RegistrationInput(
        namespace=NAMESPACE, settings=settings, writers=frozenset(), port=8443,
        scope=ManagedPods(schedulers=frozenset({"tessera-scheduler"}), take_default=True),
    )  # fmt: skip
    async with open_registration(kube, load(), terms, lambda: b""):
        pass
    await keep_apiservice(
        kube,
        Address(namespace=NAMESPACE, name="tessera-scheduler", port=8444, owner=settings.owner),
        b"",
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_is_registered_goes_with_the_manifests(tmp_path: Path) -> None:
    kubectl()
    async with a_cluster(tmp_path) as cluster, installed_by(cluster) as kube:
        await register(kube)
        await register(kube)
        role = (await cluster.admin.get(ROLE)).done["metadata"]
        owner = {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": "tessera-scheduler", "uid": role["uid"],
        }  # fmt: skip
        for path in REGISTERED:
            assert (await cluster.admin.get(path)).done["metadata"]["ownerReferences"] == [owner]
        (await cluster.admin.delete(ROLE)).done  # noqa: B018  (checks)
        await cluster.is_gone(*REGISTERED)
        with pytest.raises((ApiNotFound, ApiForbidden)):
            await register(kube)
        await cluster.apply()
        await register(kube)
        ran = await cluster.kubectl("delete", "-k", OVERLAY)
        assert ran.returncode == 0, ran.stderr
        await cluster.is_gone(*REGISTERED, *LEFT)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_an_overlay_is_applied_twice_and_removed(tmp_path: Path) -> None:
    kubectl()
    async with a_cluster(tmp_path) as cluster:
        await cluster.apply()
        made = await the_job_makes_the_passwords(cluster)
        await it_may_not_read_or_overwrite_them(cluster)
        await applying_it_again_changes_nothing(cluster, made)
        await a_job_that_has_not_ended_is_deleted_first(cluster)
        await one_command_removes_it(cluster)
        await cluster.apply()


def test_the_job_and_the_script_name_the_same_users() -> None:
    job = (KUSTOMIZE / "components" / "passwords" / "job.yaml").read_text()
    script = (KUSTOMIZE / "passwords.sh").read_text()
    users = [line.split(":")[0].strip() for line in script.splitlines() if "$(password)" in line]
    assert f"args: [{', '.join(users)}]" in job
