"""A real control plane on this machine: etcd, kube-apiserver and, where asked, kube-scheduler.

The programs are those of `deploy/kube-bin`, at its pins. There is no controller manager: nothing
collects garbage, finishes the deletion of a namespace or lifts a taint. Two admission plugins that
would need one are off: ServiceAccount (no namespace has an account) and TaintNodesByCondition (no
node would ever lose its not-ready taint).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tessera_embedded.parent import ends_with_parent
from tessera_embedded.ports import reserved_ports
from tests.contract.certificates import Authority, key_pair
from tests.contract.client import Json, open_client
from tests.contract.kubebin import kube_bin

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
START_S = 120.0
STOP_S = 20.0
POLL_S = 0.05

USERS = {
    "admin": "system:masters", "reader": "contract:readers", "editor": "contract:editors",
    "resizer": "contract:resizers", "nobody": "contract:others", "tenant": "contract:tenants",
}  # fmt: skip
"""User -> the one group that it is in. The token of `reader` is `reader-token`, and so on."""
_EDITS = {"pods": ["get", "patch", "update"]}
RULES: dict[str, dict[str, list[str]]] = {
    "contract:readers": {"pods": ["get", "list", "watch"]},
    "contract:editors": _EDITS,
    "contract:resizers": {**_EDITS, "pods/resize": ["update"]},
}
"""Group -> resource -> verbs: all that its members may do."""


def programs(*, received: bool = False) -> Path:
    """The folder of the programs; see `kube_bin`."""
    return kube_bin(*PROGRAMS, received=received)


class Program:
    """A process that can be started again; its output goes into a file."""

    def __init__(self, argv: Sequence[str | Path], log: Path) -> None:
        self._argv = argv
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in the main thread: it is killed when the thread that starts it has ended."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=ends_with_parent(signal.SIGKILL),
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None, self._argv[0]
        return self._process.pid

    def send(self, what: signal.Signals) -> None:
        """Send it a signal; with SIGSTOP, all of it has stopped when this returns."""
        assert self._process is not None, self._argv[0]
        self._process.send_signal(what)
        if what is signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def check(self) -> None:
        """Say its last words if it is not running."""
        if self._process is None or self._process.poll() is not None:
            words = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self._argv[0]} ended: {words}")

    def stop(self, what: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait until it is gone, so that its port is free."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(what)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ControlPlane:
    """What runs, and how to reach it."""

    def __init__(self, folder: Path, programs: Path, ports: Sequence[int]) -> None:
        """`ports` are three that stay free for it."""
        self._folder = folder
        self._programs = programs
        self._port, self._etcd_port, self._peer_port = ports
        self.url = f"https://127.0.0.1:{self._port}"
        self.ca_path = folder / "ca.pem"
        self.kubeconfig = folder / "admin.kubeconfig"
        self.tokens: Mapping[str, str] = {user: f"{user}-token" for user in USERS}
        self.token = self.tokens["admin"]
        self._write_files()
        self._etcd = Program(self._etcd_argv(), folder / "etcd.log")
        self._server = Program(self._server_argv(), folder / "kube-apiserver.log")

    @property
    def etcd_url(self) -> str:
        """Where etcd is, and shows its metrics."""
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def pids(self) -> Mapping[str, int]:
        """Program -> running process."""
        return {"etcd": self._etcd.pid, "kube-apiserver": self._server.pid}

    async def restart(self) -> None:
        """Stop the API server, wait for its port, and start the next; etcd keeps what there is."""
        await asyncio.to_thread(self._server.stop)
        self._server.start()
        await self._ready()

    def pause(self) -> None:
        """Let nobody get an answer; connections stay."""
        self._server.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on where `pause` came."""
        self._server.send(signal.SIGCONT)

    async def forget_history(self) -> None:
        """Let etcd forget every revision but the newest, as it does of itself after minutes, and
        the API server what it has cached."""
        async with aiohttp.ClientSession(self.etcd_url) as etcd:
            newest = await _etcd(etcd, "/v3/kv/range", {"key": _b64(b"\0"), "count_only": True})
            body: Json = {"revision": newest["header"]["revision"], "physical": True}
            await _etcd(etcd, "/v3/kv/compaction", body)
        await self.restart()

    @asynccontextmanager
    async def scheduler(self, config: Json) -> AsyncGenerator[Program]:
        """Run kube-scheduler with this KubeSchedulerConfiguration for the length of the block."""
        connection = {"kubeconfig": str(self.kubeconfig), "qps": 1000, "burst": 2000}
        path = Path(tempfile.mkdtemp(dir=self._folder, prefix="scheduler-")) / "config.json"
        path.write_text(json.dumps({"clientConnection": connection, **config}))
        argv: list[str | Path] = [
            self._programs / "kube-scheduler", f"--config={path}", "--secure-port=0", "-v=4",
        ]  # fmt: skip
        program = Program(argv, path.with_suffix(".log"))
        program.start()
        try:
            yield program
            program.check()
        finally:
            await asyncio.to_thread(program.stop, signal.SIGKILL)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run etcd and the API server for the length of the block."""
        try:
            self._etcd.start()
            self._server.start()
            await self._ready()
            await self._give_roles()
            yield
        finally:
            await asyncio.to_thread(self._server.stop, signal.SIGKILL)
            await asyncio.to_thread(self._etcd.stop, signal.SIGKILL)

    async def _ready(self) -> None:
        async with (
            asyncio.timeout(START_S),
            open_client(self.url, self.ca_path, self.token) as client,
        ):
            while True:
                await asyncio.to_thread(self._server.check)
                await asyncio.to_thread(self._etcd.check)
                try:
                    if (await client.get("/readyz")).status == 200:
                        return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(POLL_S)

    async def _give_roles(self) -> None:
        group = "rbac.authorization.k8s.io"
        path = f"/apis/{group}/v1"
        async with open_client(self.url, self.ca_path, self.token) as client:
            for name, verbs in RULES.items():
                rules = [
                    {"apiGroups": [""], "resources": [r], "verbs": v} for r, v in verbs.items()
                ]
                role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
                subject = {"apiGroup": group, "kind": "Group", "name": name}
                body: Json = {"metadata": {"name": name}, "rules": rules}
                (await client.post(f"{path}/clusterroles", body)).done  # noqa: B018  (checks)
                body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
                (await client.post(f"{path}/clusterrolebindings", body)).done  # noqa: B018  (checks)

    def _write_files(self) -> None:
        authority = Authority("contract")
        served = authority.server("localhost", "kubernetes.default.svc")
        accounts = key_pair()
        rows = [f"{self.tokens[user]},{user},{user},{group}" for user, group in USERS.items()]
        proxies = Authority("front-proxy-ca")
        proxy = proxies.server("front-proxy-client")
        for name, content in {
            "ca.pem": authority.certificate,
            "front-proxy-ca.pem": proxies.certificate,
            "front-proxy.pem": proxy.certificate,
            "front-proxy.key": proxy.key,
            "server.pem": served.certificate,
            "server.key": served.key,
            "accounts.pem": accounts.certificate,
            "accounts.key": accounts.key,
            "tokens.csv": "\n".join(rows).encode(),
            "admin.kubeconfig": json.dumps(self._kubeconfig(authority.certificate)).encode(),
        }.items():
            (self._folder / name).write_bytes(content)

    def _kubeconfig(self, ca: bytes) -> Json:
        cluster = {"server": self.url, "certificate-authority-data": _b64(ca)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "contract", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "contract", "context": {"cluster": "contract", "user": "admin"}}],
            "current-context": "contract",
        }

    def _etcd_argv(self) -> list[str | Path]:
        client, peer = (
            f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port)
        )  # fmt: skip
        return [
            self._programs / "etcd", f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--heartbeat-interval=100", "--election-timeout=500", "--log-level=warn",
        ]  # fmt: skip

    def _server_argv(self) -> list[str | Path]:
        files = self._folder
        return [
            self._programs / "kube-apiserver", f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}",
            f"--tls-cert-file={files / 'server.pem'}",
            f"--tls-private-key-file={files / 'server.key'}",
            f"--cert-dir={files}", f"--token-auth-file={files / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files / 'accounts.pem'}",
            f"--service-account-signing-key-file={files / 'accounts.key'}",
            f"--requestheader-client-ca-file={files / 'front-proxy-ca.pem'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={files / 'front-proxy.pem'}",
            f"--proxy-client-key-file={files / 'front-proxy.key'}",
            "--service-cluster-ip-range=10.0.0.0/24", "--etcd-compaction-interval=0",
            "--shutdown-watch-termination-grace-period=1s",
        ]  # fmt: skip


async def _etcd(etcd: aiohttp.ClientSession, path: str, body: Json) -> Json:
    async with asyncio.timeout(START_S), etcd.post(path, json=body) as response:
        answer: Json = await response.json()
        assert response.status == 200, answer
        return answer


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@asynccontextmanager
async def real_control_plane(folder: Path) -> AsyncGenerator[ControlPlane]:
    """A control plane with its files in this folder; KubeBinMissing where it cannot be had."""
    found = await asyncio.to_thread(programs)
    with reserved_ports(3) as ports:
        plane = ControlPlane(folder, found, ports)
        async with plane.running():
            yield plane
