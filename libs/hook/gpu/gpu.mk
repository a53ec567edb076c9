# The measurements for a real card, run through on the simulated driver: that every part works is known before anybody has a card. What
# its figures are says nothing about the hook: kernels, clock and NVML are simulated, and the machine may be busy.
.PHONY: gpu-rehearsal
gpu-rehearsal: all sim ## run gpu/run.sh on the simulated driver, each part short
	sh gpu/rehearsal.sh $(abspath $(B))
