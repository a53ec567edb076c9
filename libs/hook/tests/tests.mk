TESTS := $(wildcard tests/*_cases.c)
TESTFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Iinclude -Iabi -Isrc
$(B)/cases: tests/harness.c tests/harness.h $(TESTS) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g $(TESTFLAGS) tests/harness.c $(TESTS) -o $@ -ldl -lpthread
# The pure parts are all of the library but its wrappers; they link without a driver.
$(B)/unit: tests/unit.c $(LIB) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all $(TESTFLAGS) tests/unit.c $(LIB) -o $@ -ldl -lpthread
.PHONY: cases unit symbols memcheck
unit: $(B)/unit
	$(B)/unit
cases: all sim $(B)/cases $(B)/points/libtessera.so
	$(B)/cases $(abspath $(B))
symbols: all
	sh tests/symbols.sh $(B)
memcheck: all sim $(B)/cases ## some cases under valgrind
	TEST_UNDER=1 $(B)/cases $(abspath $(B)) allocation_stops pools_are array vmm graphs
test: unit symbols cases sim-test ## all tests

# The released library is built to load from glibc 2.17 on. ZIG: a compiler that brings old stubs,
# such as "python3 -m ziglang cc" from PyPI's ziglang.
ZIG ?= python3 -m ziglang cc
.PHONY: release aarch64
release: $(B)/release/libtessera.so ## build for glibc 2.17 and check the symbol versions
	sh tests/versions.sh $< 2.17
$(B)/release/libtessera.so: $(LIB) src/dlsym.S src/tessera.map $(HEADERS)
	@mkdir -p $(@D)
	$(ZIG) -target x86_64-linux-gnu.2.17 -O2 $(BASE) -fPIC -ftls-model=initial-exec $(LDLIB) $(LIB) src/dlsym.S -o $@ -ldl
aarch64: ## compile for aarch64
	@mkdir -p $(B)/aarch64
	$(ZIG) -target aarch64-linux-gnu.2.17 -O2 $(BASE) -fPIC -ftls-model=initial-exec $(LDLIB) $(LIB) src/dlsym.S -o $(B)/aarch64/libtessera.so -ldl

# Clients that nobody here wrote: PYTHON with cuda-bindings and nvidia-ml-py installed.
PYTHON ?= python3
.PHONY: clients
clients: all sim ## cuda-bindings and nvidia-ml-py under the hook
	sh tests/clients/run.sh $(abspath $(B)) $(PYTHON)
