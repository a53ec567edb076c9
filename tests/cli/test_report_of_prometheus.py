"""What `tessera report` makes of Prometheus' answers, good and bad."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web

from tessera_cli.report.prometheus import (
    DayFigures,
    PrometheusApi,
    PrometheusAway,
    Rows,
    digests_of,
    read_days,
    read_owners,
)
from tessera_core.utilization.recording import HolderPod
from tessera_schema.cards import Card

SHARE = {"namespace": "team", "pod": "p", "container": "c", "card": "x"}
GRANTED = {"namespace": "team", "pod_name": "p", "container_name": "c"}


@asynccontextmanager
async def server(status: int, text: str, asked: list[dict[str, str]]) -> AsyncGenerator[str]:
    async def query(request: web.Request) -> web.Response:
        form = await request.post()
        asked.append({**{k: str(v) for k, v in form.items()},
                      "token": request.headers.get("Authorization", "")})  # fmt: skip
        return web.Response(status=status, text=text)

    app = web.Application()
    app.add_routes([web.post("/prefix/api/v1/query", query)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/prefix/"
    finally:
        await runner.cleanup()


async def answer(status: int, text: str, asked: list[dict[str, str]] | None = None) -> Rows:
    sent: list[dict[str, str]] = [] if asked is None else asked
    async with server(status, text, sent) as url, ClientSession() as session:
        return await PrometheusApi(session, url, "secret").query("up", 5)


async def test_an_instant_query_has_the_token() -> None:
    asked: list[dict[str, str]] = []
    text = (
        '{"status":"success","data":{"resultType":"vector","result":['
        '{"metric":{"a":"b"},"value":[5,"1.5"]},{"metric":{},"value":[5,"NaN"]}]}}'
    )
    assert await answer(200, text, asked) == [({"a": "b"}, 1.5)]
    (form,) = asked
    assert (form["query"], form["time"], form["token"]) == ("up", "5.000", "Bearer secret")


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (400, '{"status":"error","error":"parse error"}', "up: parse error"),
        (422, '{"status":"error","error":"too many samples"}', "up: too many samples"),
        (200, "<html>login</html>", "status 200, and the answer is not Prometheus'"),
        (502, "bad gateway", "status 502, and the answer is not Prometheus'"),
        (404, "", "status 404, and the answer is not Prometheus'"),
    ],
)
async def test_a_bad_answer_is_named_with_a_remedy(status: int, text: str, said: str) -> None:
    with pytest.raises(PrometheusAway) as error:
        await answer(status, text)
    assert said in str(error.value)
    assert "give the address of a Prometheus that scrapes Tessera's agents" in str(error.value)


async def test_days_are_queried_one_by_one() -> None:
    asked: list[dict[str, str]] = []
    empty = '{"status":"success","data":{"resultType":"vector","result":[]}}'
    async with server(200, empty, asked) as url, ClientSession() as session:
        days = await read_days(PrometheusApi(session, url), 1_000_000, 2.5)
        assert await read_owners(PrometheusApi(session, url), 1_000_000, 2.5) == []
    assert [(day.until, day.seconds) for day in days] == [
        (1_000_000 - 2 * 86_400, 43_200), (1_000_000 - 86_400, 86_400), (1_000_000, 86_400),
    ]  # fmt: skip
    assert [list(digests_of(day)) for day in days] == [[], [], []]
    assert any("[43200s:1m]" in form["query"] for form in asked)


def a_day(**rows: Rows) -> DayFigures:
    names = ("granted", "cores", "held", "last", "measured", "scrapes", "busy", "idle",
             "throttled", "memory", "peak", "hours", "gaps", "cards")  # fmt: skip
    card = Card(id="x", index=0, vendor="", model="A100", memory_bytes=80 << 30)
    return DayFigures(
        until=86_400, seconds=86_400, rows={name: rows.get(name, []) for name in names},
        cards={"x": card},
    )  # fmt: skip


def test_two_series_of_one_container_add_up() -> None:
    """The agent was restarted at another address."""
    first, second = {**SHARE, "instance": "a"}, {**SHARE, "instance": "b"}
    (digest,) = digests_of(a_day(
        granted=[({**GRANTED, "instance": "a"}, 40960), ({**GRANTED, "instance": "b"}, 40960)],
        held=[({**GRANTED, "instance": "a"}, 60), ({**GRANTED, "instance": "b"}, 60)],
        measured=[(first, 60), (second, 30)], scrapes=[(first, 240), (second, 120)],
        busy=[(first, 2400), (second, 3600)], peak=[(first, 7), (second, 5)],
    ))  # fmt: skip
    assert (digest.held_s, digest.measured_s, digest.peak_bytes) == (7200, 5400, 7)
    assert digest.gpu_s == pytest.approx(5400 * 6000 / 360 / 100)
    assert (digest.part, digest.granted_bytes, digest.model) == (0.5, 40 << 30, "A100")


def test_a_peak_between_scrapes_is_that_of_the_hours() -> None:
    (digest,) = digests_of(a_day(
        granted=[(GRANTED, 1024)], held=[(GRANTED, 60)], measured=[(SHARE, 60)],
        peak=[(SHARE, 7)], hours=[(SHARE, 9)],
    ))  # fmt: skip
    assert digest.peak_bytes == 9


def test_labels_that_prometheus_renamed_are_found() -> None:
    """Its configuration does not say `honorLabels`."""
    target = {"namespace": "tessera-system", "pod": "tessera-agent-x", "container": "agent"}
    renamed = {f"exported_{key}": SHARE[key] for key in ("namespace", "pod", "container")}
    granted = {**GRANTED, "namespace": "tessera-system", "exported_namespace": "team"}
    (digest,) = digests_of(a_day(
        granted=[(granted, 1024)], held=[(granted, 60)],
        measured=[({**target, **renamed, "card": "x"}, 60)],
    ))  # fmt: skip
    assert (digest.namespace, digest.pod, digest.container) == ("team", "p", "c")
    assert digest.measured_s == 3600


def test_several_cards_share_what_was_granted_in_all() -> None:
    found = list(digests_of(a_day(
        granted=[(GRANTED, 2048)], cores=[(GRANTED, 1.0)], held=[(GRANTED, 60)],
        measured=[(SHARE, 60), ({**SHARE, "card": "y"}, 60)],
    )))  # fmt: skip
    assert [(digest.card, digest.granted_bytes) for digest in found] == [
        ("x", 1 << 30), ("y", 1 << 30),
    ]  # fmt: skip
    assert found[0].part == 0.5


async def test_owners_come_from_kube_state_metrics() -> None:
    text = (
        '{"status":"success","data":{"resultType":"vector","result":[{"value":[5,"1"],"metric":'
        '{"namespace":"team","pod":"p","owner_kind":"StatefulSet","owner_name":"train"}}]}}'
    )
    text = text.replace('"pod"', '"replicaset":"x","pod"')
    async with server(200, text, []) as url, ClientSession() as session:
        found = await read_owners(PrometheusApi(session, url), 5, 1)
    assert found == [HolderPod(namespace="team", name="p", owner_kind="StatefulSet", owner="train")]
