"""Who may connect, and what an agent's narrow permissions leave it."""

import base64
import binascii
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_embedded.nats_server import open_nats
from tessera_runtime.bus.api import Bus
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.credentials import BadSeed, Nkey, read_credentials
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BadSettings, BusAway
from tessera_schema.subjects import allocation
from tests.bus.buses import (
    CLUSTER,
    QUICK,
    an_envelope,
    numbers,
    publish,
    publish_once,
    put,
    put_once,
    resync,
    until,
    values,
    within,
)  # fmt: skip
from tests.contract.certificates import Authority

DEVICES = "tessera-devices"
USER, ACCOUNT = 20 << 3, 0


def a_seed(kind: int = USER, first: int = 18 << 3) -> str:
    """A seed as `nk -gen user` prints it."""
    raw = bytes([first | kind >> 5, (kind & 31) << 3]) + bytes(range(32))
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode()


def as_user(settings: BusSettings, name: str, password: str) -> BusSettings:
    return replace(settings, user=name, password=password)


async def works(bus: Bus) -> None:
    await within(bus.connection_generation(0))
    async with bus.subscribe("tessera.v1.c.>") as messages:
        await publish(bus, 1)
        assert await numbers(messages, 1) == [1]


async def is_refused(settings: BusSettings, why: str) -> None:
    tried: list[str] = []
    async with open_bus(settings, "test", "0", tried.append) as bus:
        await until(lambda: "away" in tried)
        with pytest.raises(BusAway, match=why):
            await publish_once(bus, 1)


async def test_a_password_is_requested_for(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    async with open_nats(tmp_path / "nats", users={"agent": "s3cret"}) as server:
        nobody = replace(QUICK, url=server.url)
        await is_refused(nobody, "Authorization Violation")
        await is_refused(as_user(nobody, "agent", "wrong"), "Authorization")
        by_file = replace(nobody, user="agent", password_file=str(tmp_path / "password"))
        async with open_bus(by_file, "test", "0") as bus:
            await works(bus)


async def test_a_password_that_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    async with open_nats(tmp_path / "nats", users={"agent": "new"}) as server:
        settings = replace(QUICK, url=server.url, user="agent", password_file=str(file))
        async with open_bus(settings, "test", "0") as bus:
            file.write_text("new")
            await works(bus)


async def test_an_nkey_opens_and_another_does_not(tmp_path: Path) -> None:
    seed = a_seed()
    (tmp_path / "seed").write_text(seed)
    config = f"authorization {{ users: [{{ nkey: {Nkey(seed).public} }}] }}"
    async with open_nats(tmp_path / "nats", config=config) as server:
        settings = replace(QUICK, url=server.url)
        await is_refused(settings, "Authorization")
        async with open_bus(
            replace(settings, nkey_file=str(tmp_path / "seed")), "test", "0"
        ) as bus:
            await works(bus)


async def test_tls_needs_the_servers_authority(tmp_path: Path) -> None:
    authority = Authority("tests")
    pair = authority.server("localhost")
    for name, data in (
        ("key", pair.key), ("cert", pair.certificate), ("ca", authority.certificate),
        ("other", Authority("others").certificate),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(data)
    config = f'tls {{ cert_file: "{tmp_path}/cert", key_file: "{tmp_path}/key" }}'
    async with open_nats(tmp_path / "nats", config=config) as server:
        url = server.url.replace("nats://", "tls://")
        settings = replace(QUICK, url=url, ca_file=str(tmp_path / "ca"))
        async with open_bus(settings, "test", "0") as bus:
            await works(bus)
        await is_refused(replace(settings, ca_file=str(tmp_path / "other")), "certificate")


async def test_a_server_without_tls_gets_no_password_where_tls_is_demanded(tmp_path: Path) -> None:
    async with open_nats(tmp_path / "nats", users={"agent": "s3cret"}) as server:
        url = server.url.replace("nats://", "tls://")
        settings = as_user(replace(QUICK, url=url), "agent", "s3cret")
        await is_refused(settings, "the server offers no TLS")


async def test_a_file_that_is_missing_is_named_and_tried_again(tmp_path: Path) -> None:
    await is_refused(replace(QUICK, creds_file=str(tmp_path / "none.creds")), "none.creds")


async def test_an_agent_needs_only_its_own_subjects(tmp_path: Path) -> None:
    may = {
        "publish": [
            "$KV.tessera-devices.n.*",
            "$JS.API.STREAM.INFO.KV_tessera-devices",
            f"tessera.v1.{CLUSTER}.usage.n",
            f"tessera.v1.{CLUSTER}.allocation.*.*.prepared",
        ],
        "subscribe": ["_INBOX_n.>"],
    }
    users = [{"user": "all", "password": "a"}, {"user": "n", "password": "n", "permissions": may}]
    config = f"authorization {json.dumps({'users': users})}"
    async with open_nats(tmp_path / "nats", config=config) as server:
        base = replace(QUICK, url=server.url)
        agents = replace(as_user(base, "n", "n"), inbox="_INBOX_n", arrange=False)
        hasty = replace(agents, call_s=1)
        async with (
            open_bus(as_user(base, "all", "a"), "scheduler", "0") as scheduler,
            scheduler.watch(DEVICES) as watch,
            scheduler.subscribe(f"tessera.v1.{CLUSTER}.*.>") as messages,
            open_bus(agents, "agent", "n") as agent,
            open_bus(hasty, "agent", "n") as refused,
        ):
            await within(scheduler.connection_generation(0))
            await within(agent.connection_generation(0))
            await resync(watch)
            await put(agent, "n.v", 1)
            assert await values(watch, 1) == {"n.v": 1}
            await publish(agent, 2)
            await agent.publish(allocation(CLUSTER, "t", "u", "prepared"), an_envelope(3), b"3")
            assert sorted(await numbers(messages, 3)) == [1, 2, 3]
            await within(refused.connection_generation(0))
            with pytest.raises(BusAway):  # NATS does not answer what is not allowed
                await put_once(refused, "other.v", 4)
            await put(refused, "n.v", 5)
            assert await values(watch, 1) == {"n.v": 5}


def test_a_creds_file_holds_a_token_and_a_seed(tmp_path: Path) -> None:
    (tmp_path / "user.creds").write_text(
        "-----BEGIN NATS USER JWT-----\nheader.body.sig\n------END NATS USER JWT------\n\n"
        "************ IMPORTANT ************\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{a_seed()}\n------END USER NKEY SEED------\n"
    )
    read = read_credentials(BusSettings(creds_file=str(tmp_path / "user.creds")))
    assert read.jwt == "header.body.sig"
    assert read.nkey is not None
    assert read.nkey.public == Nkey(a_seed()).public
    assert read.nkey.public.startswith("U")


@pytest.mark.parametrize(
    "text",
    ["", "SU", "not base32!", a_seed()[:-4] + "AAAA", a_seed(ACCOUNT), a_seed(first=0), "UABC"],
)
def test_a_file_without_a_users_seed_is_refused(text: str) -> None:
    with pytest.raises(BadSeed, match="nkey"):
        Nkey(text)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"url": "http://nats:4222"}, r"bus\.url: 'http://nats:4222': write nats://"),
        ({"url": "nats://a:4222,b:4222"}, r"bus\.url: 'b:4222'"),
        ({"url": "nats://a:99999"}, r"bus\.url: 'nats://a:99999'"),
        ({"cluster": "a.b"}, r"bus\.cluster: 'a\.b': write up to 63 letters"),
        ({"cluster": ""}, r"bus\.cluster: ''"),
        ({"user": "a"}, r"bus\.user: set it with bus\.password"),
        ({"password": "a"}, r"bus\.user"),
        ({"nkey_file": "a", "creds_file": "b"}, r"bus\.nkey_file and bus\.creds_file: set one"),
        ({"cert_file": "a"}, r"bus\.cert_file: set it with bus\.key_file"),
        ({"retry_first_s": 0.0}, r"bus\.retry_first_s: 0\.0: write a number above 0"),
        ({"batch": -1}, r"bus\.batch: -1: write a number above 0"),
        ({"heartbeat_s": 20.0}, r"bus\.pull_s: 30\.0: write more than twice bus\.heartbeat_s"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    changed: dict[str, object], message: str
) -> None:
    with pytest.raises(BadSettings, match=message):
        async with open_bus(replace(BusSettings(), **changed), "test", "0"):
            pass


def test_credentials_in_the_url_are_not_displayed() -> None:
    settings = BusSettings(url="nats://user:secret@one:4222, tls://two:4222")
    settings.check()
    assert settings.server_names == "one:4222,two:4222"
