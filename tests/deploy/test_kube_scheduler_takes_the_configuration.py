"""A stock kube-scheduler takes the configuration and the account that are deployed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tessera_embedded.ports import reserved_ports
from tests.contract.client import Json
from tests.contract.objects import a_pod
from tests.contract.real import Program, programs
from tests.deploy.installed import PODS, Installed
from tests.deploy.manifests import KUSTOMIZE, containers, overlay

PATIENCE_S = 60.0


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_ports(1) as (port,):
        yield port


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("folder", ["base/scheduler", "components/scheduler-aliases"])
async def test_kube_scheduler_runs_with_our_configuration_and_account(
    installed: Installed, tmp_path: Path, folder: str, port: int
) -> None:
    """It binds a pod that asks for no share by itself, as nobody answers as its extender."""
    config = yaml.safe_load((KUSTOMIZE / folder / "kube-scheduler.yaml").read_text())
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(a_kubeconfig(installed, "scheduler")))
    config["clientConnection"]["kubeconfig"] = str(kubeconfig)
    (tmp_path / "config").write_text(json.dumps(config))
    (container,) = [c for c in containers(overlay("dev")) if c.name.endswith("/kube-scheduler")]
    flags = [f for f in container.spec["command"][1:] if not f.startswith(("--config", "--secure"))]
    log = tmp_path / "log"
    program = Program(
        [
            programs() / "kube-scheduler", f"--config={tmp_path / 'config'}", *flags,
            f"--secure-port={port}", "--bind-address=127.0.0.1",
            f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
        ],
        log,
    )  # fmt: skip
    name = f"plain-{folder.rpartition('/')[2]}"
    async with installed.clients() as clients:
        pod = a_pod(name, schedulerName="tessera-scheduler")
        (await clients["admin"].post(PODS, pod)).done  # noqa: B018  (checks)
        program.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while "nodeName" not in (await clients["admin"].get(f"{PODS}/{name}")).done["spec"]:
                    await asyncio.to_thread(program.check)
                    await asyncio.sleep(0.2)
        finally:
            await asyncio.to_thread(program.stop)
            await clients["admin"].delete(f"{PODS}/{name}", gracePeriodSeconds="0")
    assert [line for line in log.read_text().splitlines() if "orbidden" in line] == []


def a_kubeconfig(installed: Installed, who: str) -> Json:
    cluster = {"server": installed.plane.url, "certificate-authority": str(installed.plane.ca_path)}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": installed.tokens[who]}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }  # fmt: skip
