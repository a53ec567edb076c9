"""Asks a container runtime for pods and containers, as kubelet does.

Messages are written as dicts in the names of `cri.proto`, which is compiled when this is imported.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # it has none
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc  # type: ignore[import-untyped]  # it has none

Json = dict[str, Any]
CALL_S = 60.0
SERVICE = "runtime.v1.RuntimeService"


def _service() -> Any:
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "cri")
        arguments = ["protoc", f"-I{here}", f"--descriptor_set_out={made}", "cri.proto"]
        assert protoc.main(arguments) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool.FindServiceByName(SERVICE)


METHODS = {method.name: method for method in _service().methods}


class NotDone(Exception):
    """The runtime refused; the message is its own."""


class Cri:
    """A runtime's service."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    async def call(self, name: str, **request: Any) -> Json:
        """One call. Raises NotDone."""
        method = METHODS[name]
        asked = json_format.ParseDict(request, message_factory.GetMessageClass(method.input_type)())
        answer = message_factory.GetMessageClass(method.output_type)
        ask = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            found = await asyncio.to_thread(ask, asked, timeout=CALL_S)
        except grpc.RpcError as e:
            raise NotDone(e.details()) from None
        made: Json = json_format.MessageToDict(found, preserving_proto_field_name=True)
        return made


class Pod:
    """A sandbox, and what runs in it."""

    def __init__(self, cri: Cri, config: Json, sandbox: str) -> None:
        self._cri = cri
        self._config = config
        self.id = sandbox
        self.uid: str = config["metadata"]["uid"]

    async def create(
        self,
        name: str = "main",
        *,
        image: str,
        command: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        attempt: int = 0,
        volumes: Mapping[str, Path] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Container:
        """Create a container; `volumes` are folders of the node, by where they are mounted, and
        `annotations` are its own. Raises NotDone."""
        config: Json = {
            "metadata": {"name": name, "attempt": attempt},
            "image": {"image": image},
            "command": list(command),
            "envs": [{"key": key, "value": value} for key, value in (env or {}).items()],
            "labels": {
                "io.kubernetes.container.name": name,
                **self._config["labels"],
            },
            "mounts": [
                {"container_path": path, "host_path": str(folder)}
                for path, folder in (volumes or {}).items()
            ],
            "annotations": dict(annotations or {}),
            "log_path": f"{name}.log",
            "linux": {"security_context": {"namespace_options": {"pid": "CONTAINER"}}},
        }
        made = await self._cri.call(
            "CreateContainer", pod_sandbox_id=self.id, config=config, sandbox_config=self._config
        )
        log = Path(self._config["log_directory"], f"{name}.log")
        return Container(self._cri, made["container_id"], log)

    async def run(self, name: str = "main", **more: Any) -> Container:
        """Create a container and start it. Raises NotDone."""
        container = await self.create(name, **more)
        await container.start()
        return container

    async def end(self) -> None:
        """Stop everything and remove it."""
        await self._cri.call("StopPodSandbox", pod_sandbox_id=self.id)
        await self._cri.call("RemovePodSandbox", pod_sandbox_id=self.id)


class Container:
    """A container."""

    def __init__(self, cri: Cri, container_id: str, log: Path) -> None:
        self._cri = cri
        self._log = log
        self.id = container_id

    async def start(self) -> None:
        """Start it. Raises NotDone."""
        await self._cri.call("StartContainer", container_id=self.id)

    async def stop(self) -> None:
        """Kill it, and remove it."""
        await self._cri.call("StopContainer", container_id=self.id)
        await self._cri.call("RemoveContainer", container_id=self.id)

    async def runs(self) -> bool:
        """Whether its process runs."""
        answer = await self._cri.call("ContainerStatus", container_id=self.id)
        return bool(answer["status"].get("state") == "CONTAINER_RUNNING")

    async def does(self, *command: str) -> tuple[int, str]:
        """What a command in it ends with, and prints."""
        said = await self._cri.call("ExecSync", container_id=self.id, cmd=command, timeout="20")
        text = b"".join(base64.b64decode(said.get(name, "")) for name in ("stdout", "stderr"))
        return said.get("exit_code", 0), text.decode(errors="replace")

    async def reads(self, *command: str) -> str:
        """What a command in it prints, which must end well."""
        status, text = await self.does(*command)
        assert status == 0, (command, status, text)
        return text

    async def spec(self) -> Json:
        """As the runtime made it: OCI's config.json."""
        found: Json = (await self._info())["runtimeSpec"]
        return found

    async def pid(self) -> int:
        """Its first process, as the island knows it."""
        return int((await self._info())["pid"])

    async def _info(self) -> Json:
        answer = await self._cri.call("ContainerStatus", container_id=self.id, verbose=True)
        found: Json = json.loads(answer["info"]["info"])
        return found

    async def env(self) -> dict[str, str]:
        """The variables that its process has, once it runs: until then the first process is the
        runtime's own, of which nobody may read them."""
        status, text = 1, ""
        async with asyncio.timeout(CALL_S):
            while status:
                status, text = await self.does("cat", "/proc/1/environ")
        return dict(line.split("=", 1) for line in text.split("\0") if line)

    def printed(self) -> list[str]:
        """Lines on its standard output, and errors."""
        # 2026-11-21T12:00:00.000000000Z stdout F the line
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line.split(" ", 3)[3] for line in lines]


def a_pod_config(
    name: str, folder: Path, cgroup: str, *, uid: str = "", namespace: str = "team",
    annotations: Mapping[str, str] | None = None,
) -> Json:  # fmt: skip
    """As kubelet would describe the pod."""
    uid = uid or f"uid-{name}-{secrets.token_hex(4)}"
    logs = folder / "logs" / uid
    logs.mkdir(parents=True, exist_ok=True)
    return {
        "metadata": {"name": name, "uid": uid, "namespace": namespace},
        "hostname": name,
        "log_directory": str(logs),
        "labels": {
            "io.kubernetes.pod.name": name,
            "io.kubernetes.pod.namespace": namespace,
            "io.kubernetes.pod.uid": uid,
        },
        "annotations": dict(annotations or {}),
        "linux": {"cgroup_parent": cgroup},
    }


@asynccontextmanager
async def open_cri(socket: Path) -> AsyncGenerator[Cri]:
    """Calls to the runtime at this socket."""
    options = (("grpc.max_receive_message_length", 16 << 20),)
    with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
        yield Cri(channel)
