"""`until-ready` keeps kube-scheduler from starting next to a service that stands by."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process

from aiohttp import web

from tessera_embedded.ports import reserved_ports
from tests.deploy.manifests import ROOT

PROGRAM = ROOT / "deploy/images/until-ready"
PATIENCE_S = 60.0


async def waiting(port: int) -> Process:
    url = f"http://127.0.0.1:{port}/readyz"
    return await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), url, "0.05", stdout=PIPE, stderr=PIPE
    )


async def said(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return (await process.stdout.readline()).decode()


async def test_it_waits_says_why_and_ends_when_its_neighbour_leads() -> None:
    leads = False

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(status=200 if leads else 503, text="standing by: other leads\n")

    app = web.Application()
    app.add_routes([web.get("/readyz", readyz)])
    runner = web.AppRunner(app)
    await runner.setup()
    with reserved_ports(1) as (port,):
        process = await waiting(port)
        try:
            assert "refused" in await said(process)
            await web.TCPSite(runner, "127.0.0.1", port).start()
            while "standing by: other leads" not in (line := await said(process)):
                assert line
            assert process.returncode is None
            leads = True
            async with asyncio.timeout(PATIENCE_S):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await runner.cleanup()


async def test_it_ends_when_its_pod_does() -> None:
    with reserved_ports(1) as (port,):
        process = await waiting(port)
        await said(process)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 143
