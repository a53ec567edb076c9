"""The component `ha`: three servers find each other by the configuration, and no argument of a
process names a password."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from tessera_embedded.nats_server import find_binary
from tessera_embedded.parent import ends_with_parent
from tessera_embedded.ports import reserved_ports
from tests.deploy.manifests import Container, combined, containers, environment, named

CLUSTER = "tessera-nats-cluster"
FOUND_S = 60.0


def three(folder: Path) -> tuple[Container, Mapping[str, str], Mapping[str, str]]:
    """The container of each of them, its variables, and the files that it mounts."""
    objects = combined(folder, ("ha",))
    (container,) = [
        found for found in containers(objects) if found.workload["metadata"]["name"] == CLUSTER
    ]
    (wanted,) = [v["configMap"]["name"] for v in container.pod["volumes"] if "configMap" in v]
    (files,) = named(objects, "ConfigMap", wanted)
    return container, environment(container, objects), files["data"]


def write(folder: Path, files: Mapping[str, str], ports: tuple[int, int, int]) -> None:
    """The configuration, with other ports and folders than in a cluster."""
    client, monitor, route = ports
    folder.mkdir()
    for name, text in files.items():
        for was, now in {
            "0.0.0.0:4222": f"127.0.0.1:{client}", "0.0.0.0:8222": f"127.0.0.1:{monitor}",
            "0.0.0.0:6222": f"127.0.0.1:{route}", "store_dir: /data": f'store_dir: "{folder}/d"',
        }.items():  # fmt: skip
            text = text.replace(was, now)
        (folder / name).write_text(text)


@asynccontextmanager
async def running(
    folder: Path, files: Mapping[str, str], env: Mapping[str, str], ports: tuple[int, int, int]
) -> AsyncGenerator[None]:
    """One server, on other ports than in a cluster."""
    write(folder, files, ports)
    process = await asyncio.create_subprocess_exec(
        find_binary(), "--config", str(folder / "nats.conf"), "-l", str(folder / "log"),
        env=dict(env), preexec_fn=ends_with_parent(),
    )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def routes(monitor: int) -> set[str]:
    """The names of the servers that one is connected to."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{monitor}/routez") as answer,
        ):
            found = json.loads(await answer.text())["routes"]
    except aiohttp.ClientError:
        return set()
    return {route["remote_name"] for route in found}


async def test_they_find_each_other(tmp_path: Path) -> None:
    (tmp_path / "ha").mkdir()
    _, env, files = three(tmp_path / "ha")
    names = [f"{CLUSTER}-{i}" for i in range(3)]
    password = f"p{secrets.token_hex(8)}"
    with reserved_ports(9) as ports:
        reported = env["ROUTES"].replace("$(CLUSTER_PASSWORD)", password)
        for name, port in zip(names, ports[6:], strict=True):
            assert f"{name}.tessera-nats-members:6222" in reported
            reported = reported.replace(f"{name}.tessera-nats-members:6222", f"127.0.0.1:{port}")
        passwords = {key: password for key in env if key.endswith("_PASSWORD")}
        async with AsyncExitStack() as stack:
            for i, name in enumerate(names):
                own = {**env, **passwords, "ROUTES": reported, "SERVER_NAME": name}
                at = (ports[i], ports[3 + i], ports[6 + i])
                await stack.enter_async_context(running(tmp_path / name, files, own, at))
            async with asyncio.timeout(FOUND_S):
                for i, name in enumerate(names):
                    while await routes(ports[3 + i]) != set(names) - {name}:
                        await asyncio.sleep(0.1)


def test_no_argument_names_a_password(tmp_path: Path) -> None:
    container, env, _ = three(tmp_path)
    assert "CLUSTER_PASSWORD" in env
    assert not [arg for arg in container.spec["args"] if "PASSWORD" in arg or "ROUTES" in arg]
