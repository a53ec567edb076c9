# The simulated driver: `sim` builds it into libs/hook/build/sim, `sim-test` runs its tests. Included by libs/hook/Makefile, and by
# libs/hook/sim/Makefile to work alone. SIM_DIR and BUILD may be set before; CC, CFLAGS and LDFLAGS are honoured (sanitizers, clang).
SIM_DIR ?= sim
BUILD ?= build
SIM_OUT := $(BUILD)/sim
SIM_OBJ := $(SIM_OUT)/obj
SIM_FLAGS := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Werror -fvisibility=hidden -fPIC -O2 -g -pthread -MMD -MP
SIM_LINK := -shared -pthread -Wl,-Bsymbolic -Wl,-z,defs

SIM_MACHINE := state config process recover physical block queue timeline samples clock visible
SIM_CUDA := $(SIM_MACHINE) wait entry device device_attribute context context_query primary range data memory host pointer vmm vmm_share multicast pool pool_alloc pool_share array ipc copy fill \
	module library function launch hostfunc memop stream event capture capture_query capture_rules graph graph_nodes graph_memory graph_exec graph_update user_object procaddress exporttable logs twins green control
SIM_NVML := $(SIM_MACHINE) nvml_system nvml_device nvml_mig nvml_process nvml_usage nvml_figures nvml_event nvml_lacking
SIM_TESTS := $(patsubst $(SIM_DIR)/tests/%.c,$(SIM_OUT)/tests/%,$(wildcard $(SIM_DIR)/tests/*.c))

.PHONY: sim sim-test sim-clean
sim: $(SIM_OUT)/libcuda.so.1 $(SIM_OUT)/libnvidia-ml.so.1 ## build the simulated driver

$(SIM_OUT)/libcuda.so.1: $(SIM_CUDA:%=$(SIM_OBJ)/%.o) $(SIM_DIR)/libcuda.map
	$(CC) $(SIM_LINK) $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script=$(SIM_DIR)/libcuda.map -o $@ $(filter %.o,$^)

$(SIM_OUT)/libnvidia-ml.so.1: $(SIM_NVML:%=$(SIM_OBJ)/%.o) $(SIM_DIR)/libnvidia-ml.map
	$(CC) $(SIM_LINK) $(LDFLAGS) -Wl,-soname,libnvidia-ml.so.1 -Wl,--version-script=$(SIM_DIR)/libnvidia-ml.map -o $@ $(filter %.o,$^)

$(SIM_OBJ)/%.o: $(SIM_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_FLAGS) $(CFLAGS) -c -o $@ $<

$(SIM_OUT)/tests/%: $(SIM_DIR)/tests/%.c $(SIM_OUT)/libcuda.so.1 $(SIM_OUT)/libnvidia-ml.so.1
	@mkdir -p $(@D)
	$(CC) $(SIM_FLAGS) -I$(SIM_DIR) -I$(SIM_DIR)/../abi $(CFLAGS) -o $@ $< $(LDFLAGS) $(SIM_OUT)/libcuda.so.1 $(SIM_OUT)/libnvidia-ml.so.1

sim-test: sim $(SIM_TESTS) ## test the simulated driver
	sh $(SIM_DIR)/tests/run.sh $(SIM_OUT)

sim-clean:
	rm -rf $(SIM_OUT)

-include $(wildcard $(SIM_OBJ)/*.d) $(wildcard $(SIM_OUT)/tests/*.d)
