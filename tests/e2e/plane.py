"""A whole control plane on the node's address: etcd, API server with service accounts, controllers,
the cluster's own kube-scheduler, kube-proxy. It knows nothing of Tessera.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.contract.certificates import Authority, key_pair
from tests.contract.client import Client, Json, open_client
from tests.contract.real import Program
from tests.e2e.network import API_SERVICE, NODE_IP, PODS, SERVICES

URL = f"https://{NODE_IP}:6443"
START_S = 120.0
POLL_S = 0.1
_AUDITED: Json = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "None"},
    ],
}  # fmt: skip
USERS = {"admin": "system:masters", "node": "system:masters"}


class KubectlFailed(Exception):
    """It did not do what it was asked; the message is its own."""


class Plane:
    """What runs, and how to reach it."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """Made by `open_plane`."""
        self.folder = folder
        self.programs = programs
        self.kubeconfig = folder / "admin.kubeconfig"
        self.ca_path = folder / "ca.pem"
        _write_files(folder)
        self.server = self._program("kube-apiserver", *_server_flags(folder))
        self.etcd = self._program(
            "etcd", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"
        )
        self.audit = folder / "audit.log"
        """Who sent Bindings, and what was answered: a line of JSON each."""

    def _program(self, name: str, *flags: str) -> Program:
        return Program([self.programs / name, *flags], self.folder / f"{name}.log")

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """The administrator's."""
        async with open_client(URL, self.ca_path, "admin-token") as client:
            yield client

    async def kubectl(self, *words: str, given: str = "") -> str:
        """What `kubectl` prints. Raises KubectlFailed."""
        process = await asyncio.create_subprocess_exec(
            self.programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, complained = await process.communicate(given.encode())
        if process.returncode:
            raise KubectlFailed(f"kubectl {' '.join(words)}: {complained.decode()}")
        return said.decode()

    async def ready(self) -> None:
        """Wait until the API server answers."""
        async with asyncio.timeout(START_S), self.client() as client:
            while True:
                self.server.check()
                try:
                    if (await client.get("/readyz")).status == 200:
                        return
                except OSError:
                    pass
                await asyncio.sleep(POLL_S)

    async def killed_and_restarted(self, program: Program) -> None:
        """End the API server or its store as a machine that fails would, and start it again."""
        await asyncio.to_thread(program.stop, signal.SIGKILL)
        program.start()
        await self.ready()

    def components(self) -> list[Program]:
        """What runs next to the API server."""
        config = f"--kubeconfig={self.kubeconfig}"
        files = self.folder
        scheduler = {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }  # fmt: skip
        (files / "scheduler.json").write_text(json.dumps(scheduler))
        return [
            self._program(
                "kube-controller-manager", config, "--leader-elect=false", "--secure-port=0",
                f"--service-account-private-key-file={files / 'accounts.key'}",
                f"--root-ca-file={self.ca_path}", "--kube-api-qps=200", "--kube-api-burst=400",
                "--concurrent-deployment-syncs=2", "--node-monitor-grace-period=10m",
            ),
            self._program(
                "kube-scheduler", f"--config={files / 'scheduler.json'}", "--secure-port=0"
            ),
            self._program(
                "kube-proxy", config, "--hostname-override=worker-1", f"--cluster-cidr={PODS}",
                "--proxy-mode=iptables", "--conntrack-max-per-core=0", "--healthz-bind-address=",
                "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
                "--metrics-bind-address=127.0.0.1:10249", f"--bind-address={NODE_IP}",
            ),
        ]  # fmt: skip


@asynccontextmanager
async def open_plane(folder: Path, programs: Path) -> AsyncGenerator[Plane]:
    """Run it until the block ends."""
    plane = Plane(folder, programs)
    async with AsyncExitStack() as stack:
        for program in (plane.etcd, plane.server):
            program.start()
            stack.push_async_callback(asyncio.to_thread, program.stop, signal.SIGKILL)
        await plane.ready()
        for program in plane.components():
            program.start()
            stack.push_async_callback(asyncio.to_thread, program.stop, signal.SIGKILL)
            stack.callback(program.check)
        yield plane


def _write_files(folder: Path) -> None:
    authority = Authority("e2e")
    served = authority.server("kubernetes.default.svc", NODE_IP, API_SERVICE)
    accounts = key_pair()
    users = "\n".join(f"{user}-token,{user},{user},{group}" for user, group in USERS.items())
    for name, content in {
        "ca.pem": authority.certificate, "server.pem": served.certificate,
        "server.key": served.key, "accounts.pem": accounts.certificate,
        "accounts.key": accounts.key, "tokens.csv": users.encode(),
        "audit.json": json.dumps(_AUDITED).encode(),
        "admin.kubeconfig": json.dumps(_kubeconfig(authority.certificate)).encode(),
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)


def _kubeconfig(ca: bytes) -> Json:
    cluster = {"server": URL, "certificate-authority-data": base64.b64encode(ca).decode()}
    return {
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": "admin-token"}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }  # fmt: skip


def _server_flags(files: Path) -> list[str]:
    return [
        "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
        f"--advertise-address={NODE_IP}", "--secure-port=6443",
        f"--tls-cert-file={files / 'server.pem'}",
        f"--tls-private-key-file={files / 'server.key'}", f"--cert-dir={files}",
        f"--token-auth-file={files / 'tokens.csv'}", "--authorization-mode=Node,RBAC",
        "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={files / 'accounts.pem'}",
        f"--service-account-signing-key-file={files / 'accounts.key'}",
        f"--service-cluster-ip-range={SERVICES}", f"--client-ca-file={files / 'ca.pem'}",
        "--shutdown-watch-termination-grace-period=1s",
        f"--audit-policy-file={files / 'audit.json'}", f"--audit-log-path={files / 'audit.log'}",
    ]  # fmt: skip
