"""Builds the stage: folders, ports, the processes of the control plane, the services, the nodes."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_cli.errors import CommandError
from tessera_core.hook.paths import HOOK_LIBRARY, PRELOAD_HOST
from tessera_core.registry.kube_scheduler_config import configuration, profiles
from tessera_core.trust import fencing
from tessera_demo import accounts
from tessera_demo.api_objects import insist
from tessera_demo.installation import install_definitions, install_policies
from tessera_demo.processes import Programs, open_programs
from tessera_demo.scenario import DIALECTS, Scenario
from tessera_embedded.collector import Collector, open_collector
from tessera_embedded.nats_server import NatsServer, open_nats
from tessera_embedded.node.settings import NodeDescription
from tessera_embedded.ports import reserved_ports
from tessera_runtime import dialect_config
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.annotation_keys import SCHEDULER

NAMESPACE: Final = "tessera-system"
CLUSTER: Final = "demo"
_READY_S: Final = 120.0
_LOOK_S: Final = 0.1
HARD: Final = {"TESSERA_LENDING_ENABLED": "false"}
"""Agents of the scene's own nodes: what a container may use is to be seen, not what it is lent."""
_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "VIRTUAL_ENV")


class StageFailed(CommandError):
    """Something that the demo needs did not come up; the message has the end of its log."""


class StagePorts(Struct, frozen=True):
    """What listens where, also after a restart."""

    api: int
    extender: int
    webhook: int
    visibility: int
    status: int
    console: int


class NodeSurroundings(Struct, frozen=True):
    """What every node of the stage needs."""

    hook: Path
    """Where the hook library and the simulated driver were built."""
    base: Mapping[str, str]
    """Variables of every process."""
    traced: Mapping[str, str]
    """The same for Tessera's services: where traces go, which dialects are served."""


class DemoStage:
    """Everything that runs."""

    def __init__(
        self,
        folder: Path,
        scene: Scenario,
        ports: StagePorts,
        programs: Programs,
        collector: Collector,
        nats: NatsServer,
        kube: Kube,
        around: NodeSurroundings,
    ) -> None:
        """Made by `open_stage`."""
        self._around = around
        self.folder = folder
        self.scene = scene
        self.ports = ports
        self.programs = programs
        self.collector = collector
        self.nats = nats
        self.kube = kube
        self.nats_killed = False

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / "api" / "kubeconfig"

    def kube_of(self, token: str) -> KubeSettings:
        """How to talk to the API server with that token."""
        folder = self.kubeconfig.parent
        return KubeSettings(
            url=f"https://127.0.0.1:{self.ports.api}", ca_file=folder / "ca.crt",
            token_file=folder / "tokens" / token,
        )  # fmt: skip

    def account(self, token: str) -> dict[str, str]:
        """Variables that say where the API server is, as in a pod with this account."""
        settings = self.kube_of(token)
        return {
            "TESSERA_KUBE_URL": settings.url,
            "TESSERA_KUBE_TOKEN_FILE": str(settings.token_file),
            "TESSERA_KUBE_CA_FILE": str(settings.ca_file),
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of every service."""
        return self._around.traced

    def service(self, account: str) -> dict[str, str]:
        """Variables of a service that talks to the API server and the bus, on a port of its own."""
        return {
            **self._around.traced, **self.account(account), "TESSERA_BUS_URL": self.nats.url,
            "TESSERA_BUS_CLUSTER": CLUSTER, "TESSERA_INSTANCE": "demo",
            "TESSERA_KUBE_CALL_S": "4", "TESSERA_HTTP_PORT": "0",
        }  # fmt: skip

    async def join(self, node: NodeDescription, agent: Mapping[str, str]) -> None:
        """Start one more node, whose agents get these variables as well. Raises StageFailed."""
        await _start_node(self, node, self._around, agent)

    def node_folder(self, node: str) -> Path:
        """A node's own folder."""
        return self.folder / "nodes" / node

    def agent_folder(self, node: str) -> Path:
        """Where the agents of a node keep containers' files."""
        return self.node_folder(node) / "agent"


@asynccontextmanager
async def open_stage(
    folder: Path,
    scene: Scenario,
    hook: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> AsyncGenerator[DemoStage]:
    """Start everything in an order in which it finds what it needs. `hook` is the folder in which
    the hook library and the simulated driver were built. Raises StageFailed."""
    for name in ("logs", "api", "nats", "nodes", "tmp"):
        await asyncio.to_thread((folder / name).mkdir, parents=True, exist_ok=True)
    base = {name: environ[name] for name in _INHERITED if name in environ}
    base["TMPDIR"] = str(folder / "tmp")  # what a process that is killed leaves is removed with it
    async with AsyncExitStack() as stack:
        ports = StagePorts(*stack.enter_context(reserved_ports(6)))
        collector = await stack.enter_async_context(open_collector())
        nats = await stack.enter_async_context(open_nats(folder / "nats"))
        programs = await stack.enter_async_context(open_programs(folder / "logs", say))
        traced = {
            **base,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "500",
            "TESSERA_DIALECTS_FILE": str(DIALECTS),
        }
        say("starting the API server")
        known = folder / "accounts.json"
        made = await asyncio.to_thread(accounts.accounts, scene.all_nodes)
        await asyncio.to_thread(known.write_bytes, msgspec.json.encode(made))
        await programs.start(
            "api",
            python(
                "tessera_embedded.apiserver",
                "--folder",
                folder / "api",
                "--port",
                ports.api,
                "--accounts",
                known,
            ),
            base,
        )
        kubeconfig = folder / "api" / "kubeconfig"
        await until(programs, kubeconfig.exists, "the API server")
        kube = await stack.enter_async_context(open_kube(KubeSettings(kubeconfig=str(kubeconfig))))
        around = NodeSurroundings(hook, base, traced)
        stage = DemoStage(folder, scene, ports, programs, collector, nats, kube, around)
        await until(programs, _answers(kube), "the API server")
        for name in (NAMESPACE, "tessera-agent-leases", "kube-node-lease", *scene.namespaces):
            await insist(kube, "/api/v1/namespaces", {"metadata": {"name": name}})
        # As an installation ships it: without one, the first writer waits out a former one.
        leases = paths.in_group("coordination.k8s.io", "v1", "leases", namespace=NAMESPACE)
        await insist(kube, leases, {"metadata": {"name": SCHEDULER}, "spec": {}})
        await insist(kube, paths.in_core(NAMESPACE, "services"), {
            "metadata": {"name": SCHEDULER},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        })  # fmt: skip
        for path, guard in fencing.fencing_policy(NAMESPACE).items():
            await insist(kube, path, guard)
        await asyncio.to_thread(accounts.write_tokens, folder / "api")
        await install_definitions(kube)
        await install_policies(kube)
        say("starting the scheduler, the quota monitor, the nodes and their agents")
        await _start_scheduler(stage, traced)
        await programs.start("quota", python("tessera_quota"), {
            **stage.service(accounts.QUOTA),
            "TESSERA_COUNT_EVERY_S": "1", "TESSERA_STATUS_WRITE_S": "2",
        })  # fmt: skip
        for node in scene.nodes:
            await stage.join(node, HARD)
        yield stage


async def _start_scheduler(stage: DemoStage, env: Mapping[str, str]) -> None:
    ports, local = stage.ports, "127.0.0.1"
    await stage.programs.start("scheduler", python("tessera_scheduler"), {
        **env, **stage.account(accounts.SCHEDULER), "TESSERA_BUS_URL": stage.nats.url,
        "TESSERA_WEBHOOK_WRITERS": accounts.PLUGIN,
        "TESSERA_BUS_CLUSTER": CLUSTER, "TESSERA_INSTANCE": "demo",
        "TESSERA_LEASE_DURATION_S": "10", "TESSERA_LEASE_RENEW_S": "1",
        "TESSERA_GANGS_SCHEDULING": "on", "TESSERA_GANGS_GATES": "gangs",
        "TESSERA_GANGS_BARRIER_S": "5", "TESSERA_LEASE_RETRY_S": "0.3",
        "TESSERA_PREEMPTION_MODE": "on", "TESSERA_PREEMPTION_RECLAIM": "true",
        "TESSERA_PREEMPTION_AFTER_S": "1", "TESSERA_PREEMPTION_PROTECT_S": "1",
        "TESSERA_PREEMPTION_PREEMPTORS": "volcano",
        "TESSERA_KUBE_CALL_S": "4",
        "TESSERA_EXTENDER_PORT": str(ports.extender), "TESSERA_HTTP_PORT": str(ports.status),
        "TESSERA_WEBHOOK_HTTP_HOST": local, "TESSERA_WEBHOOK_HTTP_PORT": str(ports.webhook),
        "TESSERA_WEBHOOK_REGISTRATION_HOST": local,
        "TESSERA_VISIBILITY_HTTP_HOST": local,
        "TESSERA_VISIBILITY_HTTP_PORT": str(ports.visibility),
        "TESSERA_VISIBILITY_SERVICE_PORT": str(ports.visibility),
    })  # fmt: skip
    registry = await asyncio.to_thread(dialect_config.load, DIALECTS)
    file = stage.folder / "kube-scheduler.json"
    config = configuration(registry, f"http://{local}:{ports.extender}", profiles(registry))
    await asyncio.to_thread(file.write_bytes, msgspec.json.encode(config))
    await stage.programs.start(
        "kube-scheduler",
        python("tessera_embedded.scheduling", "--kubeconfig", stage.kubeconfig, "--config", file),
        env,
    )


async def _start_node(
    stage: DemoStage, node: NodeDescription, around: NodeSurroundings, agent: Mapping[str, str]
) -> None:
    hook = around.hook
    folder = stage.node_folder(node.name)
    host = folder / "host"
    await asyncio.to_thread(_install_hook, hook, host)
    description = folder / "node.json"
    described = replace(
        node, driver_folder=str(hook / "sim"), host_root=str(host),
        limiter=str(hook / "libtessera.so"), programs={"*": (str(hook / "tessera-work"),)},
    )  # fmt: skip
    await asyncio.to_thread(description.write_bytes, msgspec.json.encode(described))
    await stage.programs.start(
        node.name,
        python(
            "tessera_embedded.node",
            "--kubeconfig",
            stage.kubeconfig.with_name("kubelet.kubeconfig"),
            "--folder",
            folder,
            "--description",
            description,
        ),
        around.base,
    )
    for vendor in node.machines:
        machine = folder / "machines" / vendor
        await until(
            stage.programs, lambda machine=machine: any(machine.glob("tessera-sim-*")), node.name
        )
        await stage.programs.start(f"agent-{node.name}", python("tessera_agent"), {
            **around.traced, **stage.account(accounts.token_of(accounts.AGENT, node.name)),
            "TESSERA_BUS_URL": stage.nats.url,
            "TESSERA_BUS_CLUSTER": CLUSTER, "TESSERA_NODE": node.name, "TESSERA_VENDOR": vendor,
            "TESSERA_FOLDER": str(stage.agent_folder(node.name)), "TESSERA_KUBE_CALL_S": "4",
            "TESSERA_USAGE_PUBLISH_S": "2",
            "TESSERA_NRI_SOCKET": str(folder / "nri.sock"), "TMPDIR": str(machine),
            "TESSERA_READER_LIBRARY": str(next((hook / "sim").glob("lib*-ml.so.1"))), **agent,
        })  # fmt: skip


def _install_hook(hook: Path, host: Path) -> None:
    """As the agent's DaemonSet puts it on a node: the library, and the file that preloads it."""
    library = host / HOOK_LIBRARY.lstrip("/")
    library.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(hook / "libtessera.so", library)
    preload = host / PRELOAD_HOST.lstrip("/")
    preload.parent.mkdir(parents=True, exist_ok=True)
    preload.write_text(f"{HOOK_LIBRARY}\n")


async def until(
    programs: Programs, holds: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str
) -> None:
    """Wait until it holds. Raises StageFailed after two minutes."""
    try:
        async with asyncio.timeout(_READY_S):
            while True:
                answer = holds()
                if await answer if not isinstance(answer, bool) else answer:
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        said = "".join(f"\n--- {p.name}:\n{p.tail()}" for p in programs.all)
        raise StageFailed(f"{what} did not come up in {_READY_S:g} s{said}") from None


def _answers(kube: Kube) -> Callable[[], Awaitable[bool]]:
    async def answers() -> bool:
        try:
            await kube.call(Verb.GET, "/readyz")
        except TesseraError:
            return False
        return True

    return answers


def python(module: str, *arguments: object) -> list[str]:
    """The command line of one of our programs."""
    return [sys.executable, "-m", module, *map(str, arguments)]
