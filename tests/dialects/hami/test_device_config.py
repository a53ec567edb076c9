"""HAMi's own configuration file: taken as it is, and what has no effect is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_core.registry.registry import BadConfiguration, load
from tessera_runtime import dialect_config
from tessera_runtime.errors import BadSettings

WHOLE = """
nvidia:
  resourceCountName: nvidia.com/vgpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  resourcePriorityName: nvidia.com/priority
  overwriteEnv: false
  defaultMemory: 0
  defaultCores: 30
  defaultGPUNum: 1
  memoryFactor: 1
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
  gpuCorePolicy: default
  libCudaLogLevel: 1
  runtimeClassName: ""
  migProfileAllowlist: []
mthreads:
  resourceCountName: mthreads.com/vgpu
  resourceMemoryName: mthreads.com/sgpu-memory
  resourceCoreName: example.com/sgpu-core
iluvatars:
  - chipName: MR-V100
    commonWord: MR-V100
    resourceCountName: iluvatar.ai/MR-V100-vgpu
    resourceMemoryName: example.com/mr.vMem
    resourceCoreName: iluvatar.ai/MR-V100.vCore
hygon:
  resourceCountName: hygon.com/dcunum
"""


def test_the_whole_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "device-config.yaml"
    file.write_text(WHOLE)
    known = dialect_config.load(file)
    for name, owner in {
        "nvidia.com/vgpu": "hami",
        "example.com/sgpu-core": "mthreads",
        "example.com/mr.vMem": "iluvatar",
    }.items():
        assert known.owners[name] == owner
    for name in ("mthreads.com/sgpu-core", "iluvatar.ai/MR-V50-vgpu", "iluvatar.ai/MR-V100.vMem"):
        assert name not in known.owners
    assert known.ignored == (
        "nvidia.migProfileAllowlist: []: cards in MIG mode take no pods yet",
        "hygon: no dialect reads this section",
    )


@pytest.mark.parametrize(
    ("config", "ignored"),
    [
        ({"nvidia": {"memoryFactor": 10, "colour": "red"}}, "nvidia.colour: 'red': no such key"),
        ({"nvidia": {"memoryFactor": 10}, "mthreads": [1]}, "mthreads: [1]: HAMi has a mapping"),
        ({"nvidia": {"memoryFactor": 10}, "iluvatars": {"a": 1}}, "HAMi has a list here"),
        ({"iluvatars": [{"resourceCoreName": "a.b/c"}]}, "iluvatars[0]: without commonWord"),
        ({"nvidia": {"memoryFactor": 10}, "vnpus": []}, "vnpus: no dialect reads this section"),
    ],
)
def test_what_has_no_effect_is_named(config: dict[str, dict[str, object]], ignored: str) -> None:
    (said,) = load(config).ignored
    assert ignored in said


def test_a_value_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadConfiguration, match="default_cores 300 is not between 0 and 100"):
        load({"nvidia": {"defaultCores": 300}})


def test_a_section_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "dialects.yaml"
    file.write_text("hami: [1]\n")
    with pytest.raises(BadSettings, match=r"dialects\.hami: \[1\]: write options"):
        dialect_config.load(file)


def test_tesseras_own_file_is_not_taken_for_hamis() -> None:
    known = load({"mthreads": {"core": "example.com/core"}, "hami": {"default_cores": 10}})
    assert known.ignored == ()
    assert known.owners["example.com/core"] == "mthreads"
    with pytest.raises(BadConfiguration, match=r"dialects\.nvidia: no such dialect"):
        load({"nvidia": {"default_cores": 10}})


def test_sections_of_tesseras_own_may_stand_below(tmp_path: Path) -> None:
    file = tmp_path / "device-config.yaml"
    file.write_text(WHOLE + "volcano:\n  enabled: false\nhami:\n  default_cores: 40\n")
    known = dialect_config.load(file, {"koordinator": {"enabled": False}})
    assert not {"volcano", "koordinator"} & known.dialects.keys()
    assert "nvidia.com/vgpu" in known.owners


def test_an_empty_section_changes_nothing() -> None:
    plain = load()
    known = load({"nvidia": {"memoryFactor": 1}, "mthreads": {}, "iluvatars": []})
    assert known.owners == plain.owners
    assert known.ignored == ()
