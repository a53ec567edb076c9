"""The message bus as it is deployed: who may connect, what each may publish and receive, with the
client of the services and the server that NATS itself makes."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from tessera_embedded.nats_server import find_binary
from tessera_embedded.parent import ends_with_parent
from tessera_embedded.ports import reserved_ports
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.client import NatsBus, open_bus
from tessera_runtime.bus.micro_service import MicroService, open_micro, request
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import BusAway, TesseraError
from tessera_schema.messages.envelope import Envelope
from tessera_schema.subjects import (
    DEVICES_BUCKET,
    HINTS_BUCKET,
    allocation,
    hint,
    plan,
    quota,
    usage,
)
from tests.bus.buses import QUICK, an_envelope, resync, until, values, within
from tests.deploy.manifests import KUSTOMIZE, containers, environment, named, overlay

CLUSTER: Final = QUICK.cluster
PATIENCE_S: Final = 60.0
PATIENT: Final = replace(QUICK, check_s=20, heartbeat_s=10, pull_s=30)
"""Nothing here breaks, so that only a slow machine could make a connection begin again."""
REFUSED_S: Final = 1.0
"""Seconds for which an answer is waited for that does not come."""
PASSWORDS: Final = KUSTOMIZE / "passwords.sh"


def passwords() -> dict[str, str]:
    """What `passwords.sh` makes."""
    made = subprocess.run(["sh", PASSWORDS], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"^  (\w+): (p[0-9a-f]+)$", made, re.MULTILINE))


class Server:
    """nats-server with a deployed configuration, which is changed in its folders and ports only."""

    def __init__(self, folder: Path, files: Mapping[str, str], port: int = 4222) -> None:
        self.port = port
        self.passwords = passwords()
        text = files["nats.conf"]
        for was, now in {
            "0.0.0.0:4222": f"127.0.0.1:{self.port}", "0.0.0.0:8222": "127.0.0.1:-1",
            "store_dir: /data": f'store_dir: "{folder / "data"}"',
        }.items():  # fmt: skip
            assert was in text
            text = text.replace(was, now)
        for name, content in {**files, "nats.conf": text}.items():
            (folder / name).write_text(content)
        self.config = folder / "nats.conf"
        self.log = folder / "nats.log"

    @property
    def environment(self) -> dict[str, str]:
        names = {f"{user.upper()}_PASSWORD": word for user, word in self.passwords.items()}
        return {**names, "SERVER_NAME": "tessera-nats-0", "ROUTES": "[]"}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        process = await asyncio.create_subprocess_exec(
            find_binary(), "-c", str(self.config), "-l", str(self.log), env=self.environment,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
        try:
            yield
            assert process.returncode is None, self.log.read_text()
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def settings(self, user: str, password: str = "") -> BusSettings:
        return replace(
            PATIENT, url=f"nats://127.0.0.1:{self.port}", user=user,
            password=password or self.passwords[user],
            inbox="_INBOX" if user == "viewer" else f"_INBOX_{user}", arrange=user == "scheduler",
        )  # fmt: skip


def files_of(name: str) -> dict[str, str]:
    """The configuration that an overlay mounts."""
    objects = overlay(name)
    (item,) = named(objects, "StatefulSet", "tessera-nats")
    (wanted,) = [
        v["configMap"]["name"]
        for v in item["spec"]["template"]["spec"]["volumes"]
        if "configMap" in v
    ]
    (found,) = named(objects, "ConfigMap", wanted)
    files: dict[str, str] = found["data"]
    return files


def a_letter(number: int) -> tuple[Envelope, bytes]:
    return an_envelope(number), str(number).encode()


async def next_of(messages: object) -> Message:
    async with asyncio.timeout(PATIENCE_S):
        item = await anext(messages)  # type: ignore[call-overload]  # an iterator of messages
    assert isinstance(item, Message)
    return item


@asynccontextmanager
async def a_server(folder: Path) -> AsyncGenerator[Server]:
    """The server of the overlay `dev`."""
    with reserved_ports(1) as (port,):
        server = Server(folder, files_of("dev"), port)
        async with server.running():
            yield server


@asynccontextmanager
async def everybody(folder: Path, *hasty: str) -> AsyncGenerator[Mapping[str, NatsBus]]:
    """The server, with each of its users connected; some of them once more, as `hasty <user>`, who
    do not wait long for an answer."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(a_server(folder))
        users = ("scheduler", "agent", "quota", "rebalancer", "viewer")
        ways = {user: server.settings(user) for user in users} | {
            f"hasty {user}": replace(server.settings(user), call_s=REFUSED_S, arrange=False)
            for user in hasty
        }
        buses: dict[str, NatsBus] = {}
        for name, settings in ways.items():
            bus = await stack.enter_async_context(open_bus(settings, settings.user, "0"))
            await within(bus.connection_generation(0))
            buses[name] = bus
        yield buses


async def test_each_says_and_receives_what_its_work_needs(tmp_path: Path) -> None:
    async with (
        everybody(tmp_path) as buses,
        buses["scheduler"].watch(DEVICES_BUCKET) as watch,
        buses["viewer"].subscribe(f"tessera.v1.{CLUSTER}.>") as messages,
    ):
        await resync(watch)
        scheduler, agent = buses["scheduler"], buses["agent"]
        await agent.put(DEVICES_BUCKET, "n.v", *a_letter(1))
        assert await values(watch, 1) == {"n.v": 1}
        await agent.publish(usage(CLUSTER, "n"), *a_letter(2))
        publishers = {
            "prepared": agent, "running": agent,
            "granted": scheduler, "released": scheduler, "refused": scheduler,
        }  # fmt: skip
        for number, (what, bus) in enumerate(publishers.items(), start=3):
            await bus.publish(allocation(CLUSTER, "t", "u", what), *a_letter(number))
        await scheduler.publish(plan(CLUSTER, "p", "proposed"), *a_letter(8))
        subjects = {(await next_of(messages)).subject.split(".", 3)[3] for _ in range(8)}
        assert subjects == {
            "device.n.v", "usage.n", *(f"allocation.t.u.{what}" for what in publishers),
            "plan.p.proposed",
        }  # fmt: skip


async def test_the_quota_monitor_receives_of_use_and_says_of_quotas(tmp_path: Path) -> None:
    async with (
        everybody(tmp_path) as buses,
        buses["quota"].subscribe(usage(CLUSTER, "*")) as used,
        buses["viewer"].subscribe(quota(CLUSTER, "team-a", "*")) as reported_of,
    ):
        await buses["agent"].publish(usage(CLUSTER, "n"), *a_letter(1))
        assert (await next_of(used)).subject == usage(CLUSTER, "n")
        await buses["quota"].publish(quota(CLUSTER, "team-a", "exceeded"), *a_letter(2))
        assert (await next_of(reported_of)).subject == quota(CLUSTER, "team-a", "exceeded")


async def test_the_rebalancer_receives_of_use_and_says_hints_and_plans(tmp_path: Path) -> None:
    async with (
        everybody(tmp_path) as buses,
        buses["rebalancer"].subscribe(usage(CLUSTER, "*")) as used,
        buses["scheduler"].watch(HINTS_BUCKET) as hints,
        buses["viewer"].subscribe(plan(CLUSTER, "p", "*")) as plans,
    ):
        await resync(hints)
        await buses["agent"].publish(usage(CLUSTER, "n"), *a_letter(1))
        assert (await next_of(used)).subject == usage(CLUSTER, "n")
        await buses["rebalancer"].put(HINTS_BUCKET, "n", *a_letter(2))
        assert await values(hints, 1) == {hint(CLUSTER, "n"): 2}
        await buses["rebalancer"].publish(plan(CLUSTER, "p", "proposed"), *a_letter(3))
        assert (await next_of(plans)).subject == plan(CLUSTER, "p", "proposed")


async def test_agents_receive_how_far_they_lend_and_whose_cores_are_lowered(tmp_path: Path) -> None:
    async with (
        everybody(tmp_path, "agent") as buses,
        buses["agent"].watch(HINTS_BUCKET, "n") as hints,
        buses["agent"].subscribe(quota(CLUSTER, "*", "*")) as lowered,
    ):
        await resync(hints)
        await buses["rebalancer"].put(HINTS_BUCKET, "n", *a_letter(1))
        assert await values(hints, 1) == {hint(CLUSTER, "n"): 1}
        await buses["quota"].publish(quota(CLUSTER, "team-a", "throttled"), *a_letter(2))
        assert (await next_of(lowered)).subject == quota(CLUSTER, "team-a", "throttled")
        with pytest.raises(BusAway):
            await buses["hasty agent"].put(HINTS_BUCKET, "n", *a_letter(3))


async def test_services_answer_anyone_may_request(tmp_path: Path) -> None:
    async def answer(_: bytes) -> bytes:
        return b"well"

    may_not = ("agent", "quota", "rebalancer")
    async with everybody(tmp_path, *may_not) as buses, AsyncExitStack() as stack:
        for name, endpoint in (
            ("scheduler", "info"), ("agent", "info-n-v"), ("quota", "info"),
            ("rebalancer", "info"),
        ):  # fmt: skip
            service = MicroService(name=f"tessera-{name}", instance="n-v")
            await stack.enter_async_context(
                open_micro(buses[name], SystemClock(), service, {endpoint: answer})
            )
            async with asyncio.timeout(PATIENCE_S):
                while await answer_of(buses["viewer"], name, endpoint) != b"well":
                    await asyncio.sleep(0.05)
            for asks in ("", f".tessera-{name}", f".tessera-{name}.n-v"):
                assert f"tessera-{name}" in await pinged(buses["viewer"], asks, name)
        for user in may_not:
            with pytest.raises(BusAway):
                await request(buses[f"hasty {user}"], "scheduler", "info")


async def pinged(bus: NatsBus, subject: str, name: str) -> str:
    """Who answers as `nats service` pings; of several any may be first."""
    link = await bus.linked()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            pong = json.loads((await link.request(f"$SRV.PING{subject}", b"")).data)
            if pong["name"] == f"tessera-{name}":
                assert (pong["type"], pong["id"]) == ("io.nats.micro.v1.ping_response", "n-v")
                return str(pong["name"])


async def test_tessera_events_follows_as_the_viewer(tmp_path: Path) -> None:
    password = tmp_path / "viewer"
    async with (
        a_server(tmp_path) as server,
        open_bus(server.settings("scheduler"), "scheduler", "0") as scheduler,
        open_bus(server.settings("agent"), "agent", "0") as agent,
    ):
        password.write_text(f"{server.passwords['viewer']}\n")
        for bus in (scheduler, agent):
            await within(bus.connection_generation(0))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_cli", "events", "--count=1", "--output=json",
            f"--url=nats://127.0.0.1:{server.port}", f"--cluster={CLUSTER}", "--user=viewer",
            f"--password-file={password}", stdout=PIPE,
        )  # fmt: skip
        async with asyncio.timeout(2 * PATIENCE_S):
            for number in itertools.count(1):  # it prints what comes after it has connected
                if process.returncode is not None:
                    break
                await agent.publish(usage(CLUSTER, "n"), *a_letter(number))
                await asyncio.sleep(0.2)
            printed, _ = await process.communicate()
    assert process.returncode == 0
    assert usage(CLUSTER, "n") in printed.decode()


async def answer_of(bus: NatsBus, service: str, endpoint: str) -> bytes:
    """Its answer; none before it has subscribed."""
    try:
        return await request(bus, service, endpoint)
    except BusAway:
        return b""


FORBIDDEN = [
    ("agent", allocation(CLUSTER, "t", "u", "granted")),
    ("agent", allocation(CLUSTER, "t", "u", "released")),
    ("scheduler", usage(CLUSTER, "n")),
    ("scheduler", allocation(CLUSTER, "t", "u", "running")),
    ("scheduler", quota(CLUSTER, "t", "throttled")),
    ("agent", quota(CLUSTER, "t", "throttled")),
    ("quota", usage(CLUSTER, "n")),
    ("rebalancer", usage(CLUSTER, "n")),
    ("rebalancer", allocation(CLUSTER, "t", "u", "granted")),
    ("rebalancer", quota(CLUSTER, "t", "throttled")),
    ("agent", plan(CLUSTER, "p", "proposed")),
    ("quota", plan(CLUSTER, "p", "proposed")),
    ("quota", allocation(CLUSTER, "t", "u", "released")),
    ("viewer", usage(CLUSTER, "n")),
    ("viewer", allocation(CLUSTER, "t", "u", "granted")),
]


@pytest.mark.parametrize(("user", "subject"), FORBIDDEN)
async def test_nobody_says_what_is_anothers_to_say(tmp_path: Path, user: str, subject: str) -> None:
    async with everybody(tmp_path, user) as buses:
        with pytest.raises(BusAway):  # NATS does not answer what is not allowed
            await buses[f"hasty {user}"].publish(subject, *a_letter(1))


@pytest.mark.parametrize("user", ["scheduler", "quota", "rebalancer", "viewer"])
async def test_the_state_of_cards_is_the_agents_to_say(tmp_path: Path, user: str) -> None:
    async with everybody(tmp_path, user) as buses:
        with pytest.raises(BusAway):
            await buses[f"hasty {user}"].put(DEVICES_BUCKET, "n.v", *a_letter(1))


@pytest.mark.parametrize(("user", "password"), [("agent", "wrong"), ("nobody", "wrong")])
async def test_a_stranger_does_not_get_in(tmp_path: Path, user: str, password: str) -> None:
    tried: list[str] = []
    async with (
        a_server(tmp_path) as server,
        open_bus(server.settings(user, password), user, "0", tried.append) as bus,
    ):
        await until(lambda: "away" in tried)
        with pytest.raises(TesseraError):
            await bus.publish(usage(CLUSTER, "n"), *a_letter(1))


@pytest.mark.parametrize("name", ["dev", "single-node", "production"])
def test_the_configuration_of_every_overlay_is_one(name: str, tmp_path: Path) -> None:
    server = Server(tmp_path, files_of(name))
    for file in ("tls.conf", "routes.conf"):  # their certificates are not here
        (tmp_path / file).write_text("")
    ran = subprocess.run(
        [find_binary(), "-t", "-c", server.config], env=server.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_a_password_is_a_word_to_nats_and_never_the_same() -> None:
    first, second = passwords(), passwords()
    users = {"scheduler", "agent", "quota", "rebalancer", "viewer", "operator"}
    assert first.keys() == {*users, "cluster"}
    assert not set(first.values()) & set(second.values())
    assert all(re.fullmatch("p[0-9a-f]{48}", word) for word in first.values())


@pytest.mark.parametrize("name", ["dev", "single-node", "production"])
def test_services_say_who_they_are(name: str) -> None:
    objects = overlay(name)
    for container in containers(objects):
        if container.spec["name"] in ("scheduler", "agent", "quota", "rebalancer"):
            env = environment(container, objects)
            assert env["TESSERA_BUS_USER"] == container.spec["name"]
            assert env["TESSERA_BUS_INBOX"] == f"_INBOX_{container.spec['name']}"
