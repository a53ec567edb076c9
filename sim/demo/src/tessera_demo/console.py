"""The console: a page of what is on the stage, while the demo plays and stays."""

from __future__ import annotations

from tessera_demo.stage import CLUSTER, DemoStage, python, until


async def start_console(stage: DemoStage) -> str:
    """Start it as the administrator; its address. Raises StageFailed."""
    ports = stage.folder / "console.ports"
    await stage.programs.start("console", python("tessera_console"), {
        **stage.environment, "KUBECONFIG": str(stage.kubeconfig),
        "TESSERA_BUS_URL": stage.nats.url, "TESSERA_BUS_CLUSTER": CLUSTER,
        "TESSERA_ACCESS": "open", "TESSERA_HTTP_PORT": str(stage.ports.console),
        "TESSERA_PROCESS_PORTS_FILE": str(ports), "TESSERA_HISTORY_EVERY_S": "2",
    })  # fmt: skip
    await until(stage.programs, ports.exists, "the console")
    return f"http://127.0.0.1:{stage.ports.console}"
