"""A release on a real API server. Nothing runs there: no controller starts a pod. What a Job of the
chart would run is run here, with a token of its account."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.contract.client import STRATEGIC, Client, Json, open_client
from tests.contract.real import ControlPlane
from tests.helm.chart import CHART, NAMESPACE

JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
WEBHOOKS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    for kind in ("mutating", "validating")
)
APISERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
EXPLANATIONS: Final = "v1alpha1.visibility.tessera.dev"


class Release:
    """helm, and the API server that it talks to."""

    def __init__(self, plane: ControlPlane, helm: Path, folder: Path) -> None:
        self.plane = plane
        self._helm = helm
        self._folder = folder

    @asynccontextmanager
    async def admin(self) -> AsyncGenerator[Client]:
        """The administrator's client."""
        plane = self.plane
        async with open_client(plane.url, plane.ca_path, plane.token) as admin:
            yield admin

    async def install(self, values: Mapping[str, Any], *options: str) -> str:
        """What `helm install` says. Raises AssertionError with what is wrong."""
        return await self._change(
            "install", "tessera", CHART, "--create-namespace", *options, values=values
        )

    async def upgrade(self, values: Mapping[str, Any], *options: str) -> str:
        """What `helm upgrade` says. Raises AssertionError with what is wrong."""
        return await self._change("upgrade", "tessera", CHART, *options, values=values)

    async def uninstall(self) -> str:
        """What `helm uninstall` says. Raises AssertionError with what is wrong."""
        return await self._change("uninstall", "tessera")

    async def _change(self, *words: str | Path, values: Mapping[str, Any] | None = None) -> str:
        """One command of helm, and meanwhile the Jobs that it waits for."""
        more = () if values is None else ("--values", "-")
        async with asyncio.TaskGroup() as group:
            jobs = group.create_task(self._run_jobs(), name="jobs")
            try:
                ran = await asyncio.to_thread(
                    subprocess.run,
                    [
                        self._helm, f"--kubeconfig={self.plane.kubeconfig}",
                        f"--namespace={NAMESPACE}", *words, *more,
                    ],
                    input=yaml.safe_dump(dict(values or {})), capture_output=True, text=True,
                    check=False,
                )  # fmt: skip
            finally:
                jobs.cancel()
        await self._end_namespaces()
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    async def _end_namespaces(self) -> None:
        """What the namespace controller does with namespaces that are deleted and empty."""
        path = "/api/v1/namespaces"
        async with self.admin() as admin:
            for namespace in (await admin.get(path)).done["items"]:
                if namespace["metadata"].get("deletionTimestamp"):
                    namespace["spec"]["finalizers"] = []
                    name = namespace["metadata"]["name"]
                    (await admin.put(f"{path}/{name}/finalize", namespace)).done  # noqa: B018

    async def _run_jobs(self) -> None:
        """What the Job controller and kubelet do with a Job."""
        async with self.admin() as admin:
            while True:
                jobs = (await admin.get(JOBS)).body.get("items", ())
                for job in jobs:
                    if not job.get("status", {}).get("conditions"):
                        await self._run(admin, job)
                await asyncio.sleep(0.1)

    async def _run(self, admin: Client, job: Json) -> None:
        pod = job["spec"]["template"]["spec"]
        account = self._folder / "account"
        account.mkdir(exist_ok=True)
        shutil.copy(self.plane.ca_path, account / "ca.crt")
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{pod['serviceAccountName']}/token"
        token = (await admin.post(path, {"spec": {"expirationSeconds": 3600}})).done
        (account / "token").write_text(token["status"]["token"])
        (container,) = pod["containers"]
        interpreter, program = container["command"]
        assert interpreter == "python"
        (volume,) = pod["volumes"]
        maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{volume['configMap']['name']}"
        script = self._folder / Path(program).name
        script.write_text((await admin.get(maps)).done["data"][script.name])
        ran = await asyncio.to_thread(
            subprocess.run,
            [
                sys.executable, script, *container.get("args", ()), f"--url={self.plane.url}",
                f"--account={account}", "--patience=5",
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        (self._folder / "job.log").write_text(ran.stderr)
        await admin.patch(
            f"{JOBS}/{job['metadata']['name']}/status", _ended(ran.returncode), STRATEGIC
        )

    @property
    def said(self) -> str:
        """What the last Job wrote."""
        return (self._folder / "job.log").read_text()


def _ended(code: int) -> Json:
    """The status of a Job whose pod has ended."""
    now = "2026-01-01T00:00:00Z"
    kinds = ("FailureTarget", "Failed") if code else ("SuccessCriteriaMet", "Complete")
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now,
         "reason": "Ended", "message": str(code)}
        for kind in kinds
    ]  # fmt: skip
    status: Json = {"startTime": now, "conditions": conditions, "uncountedTerminatedPods": {}}
    return {"status": status | ({"failed": 1} if code else {"succeeded": 1, "completionTime": now})}


async def everything(admin: Client) -> set[tuple[str, str]]:
    """Kind and name of every object that is Tessera's. Events are not: controllers write them about
    its objects, also as these go, and they end by themselves."""
    found = set()
    for group in await _groups(admin):
        listed = (await admin.get(group)).body.get("resources", ())
        for resource in listed:
            kind = resource["kind"]
            if kind == "Event" or "list" not in resource["verbs"] or "/" in resource["name"]:
                continue
            answer = await admin.get(f"{group}/{resource['name']}")
            for item in answer.body.get("items") or ():
                if "tessera" in json.dumps(item["metadata"].get("name")):
                    found.add((kind, item["metadata"]["name"]))
    return found


async def _groups(admin: Client) -> list[str]:
    groups = (await admin.get("/apis")).done["groups"]
    return ["/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in groups)]
