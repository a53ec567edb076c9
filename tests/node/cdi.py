"""The cards of a simulated machine as a vendor's toolkit writes them down for runtimes (CDI): each
by its id, with the driver's files for the container that gets one."""

import json

from tests.agent.machine import SIM
from tests.node.runtime import Containerd
from tests.node.toolkit import DRIVER, LIBRARIES, MACHINE

KIND = "nvidia.com/gpu"
FILE = "/var/run/cdi/nvidia.json"


async def write_specification(runtime: Containerd) -> None:
    """Put it where the runtime looks."""
    mounts = [
        {"hostPath": str(source), "containerPath": path, "options": ["rbind", how]}
        for source, path, how in ((SIM, LIBRARIES, "ro"), (runtime.machine, MACHINE, "rw"))
    ]
    text = json.dumps({
        "cdiVersion": "0.6.0", "kind": KIND,
        "devices": [
            {"name": card, "containerEdits": {"env": [f"TESSERA_SIM_DEVICES={card}"]}}
            for card in runtime.cards
        ],
        "containerEdits": {"env": list(DRIVER), "mounts": mounts},
    })  # fmt: skip
    written = runtime.island.folder / "cdi.json"
    written.write_text(text)
    await runtime.island.run("install", "-D", written, FILE)
