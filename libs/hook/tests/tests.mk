PYTHON ?= python3
TESTS := $(wildcard tests/*_cases.c)
DRIVEN := tests/wander.c tests/tenants.c
TESTFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Iinclude -Iabi -Isrc
$(B)/cases: tests/harness.c tests/harness.h $(DRIVEN) tests/wander.h tests/tenants.h $(TESTS) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g $(TESTFLAGS) tests/harness.c $(DRIVEN) $(TESTS) -o $@ -ldl -lpthread
# The pure parts are all of the library but its wrappers; they link without a driver.
$(B)/unit: tests/unit.c $(LIB) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all $(TESTFLAGS) tests/unit.c $(LIB) -o $@ -ldl -lpthread
# Random limits files from tests/fuzz of the Python code.
$(B)/limits-fuzz: tests/limits_fuzz.c $(LIB) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all $(TESTFLAGS) tests/limits_fuzz.c $(LIB) -o $@ -ldl -lpthread
.PHONY: cases unit symbols memcheck
unit: $(B)/unit
	$(B)/unit
$(B)/interposer.so: tests/stub/interposer.c
	@mkdir -p $(@D)
	$(CC) -O0 -fPIC -shared -D_GNU_SOURCE $< -o $@ -ldl
$(B)/whole-card/libnvidia-ml.so.1: tests/stub/whole_card_nvml.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O0 -g -std=gnu11 -Wall -Wextra -Iabi -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 -Wl,-Bsymbolic $< -o $@
STUBS := $(B)/interposer.so $(B)/whole-card/libnvidia-ml.so.1
cases: all sim $(B)/cases $(B)/points/libtessera.so $(STUBS)
	$(B)/cases $(abspath $(B))
symbols: all
	sh tests/symbols.sh $(B)
memcheck: all sim $(B)/cases $(STUBS) ## some cases under valgrind
	TEST_UNDER=1 $(B)/cases $(abspath $(B)) allocation_stops pools_are_charged hc_array hc_vmm hc_graph a_graph_that a_pool_that_grows memory_that_outlives contexts_are code_is external ipc_from
# The library as other compilers' moods would have it: not optimised, and under the sanitizers.
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LIBASAN = $(shell $(CC) -print-file-name=libasan.so)
UNDER_ASAN = ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0 TEST_FIRST=$(LIBASAN) TEST_HOOK=asan/libtessera.so
$(B)/o0/libtessera.so: $(LIB) src/dlsym.S src/tessera.map $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O0 -g $(LIBFLAGS) $(LDLIB) -nostartfiles $(LIB) src/dlsym.S -o $@ -ldl
# What libasan calls through dlsym before it is ready itself.
BEFORE_ASAN := route real
$(B)/asan/libtessera.so: $(LIB) $(OBJ) src/dlsym.S src/tessera.map $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g -fno-lto $(ASAN) $(LIBFLAGS) $(LDLIB) -nostartfiles $(filter-out $(BEFORE_ASAN:%=src/%.c),$(LIB)) $(BEFORE_ASAN:%=$(B)/obj/%.o) src/dlsym.S -o $@ -ldl
# gcc's, which sees the threads of one process; what processes share is for the other cases.
LIBTSAN = $(shell $(CC) -print-file-name=libtsan.so)
$(B)/tsan/libtessera.so: $(LIB) $(OBJ) src/dlsym.S src/tessera.map $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g -fno-lto -fsanitize=thread $(LIBFLAGS) $(LDLIB:-Wl,--no-undefined=) -nostartfiles $(filter-out $(BEFORE_ASAN:%=src/%.c),$(LIB)) $(BEFORE_ASAN:%=$(B)/obj/%.o) src/dlsym.S -o $@ -ldl
.PHONY: variants sanitize tsan
tsan: all sim $(B)/cases $(STUBS) $(B)/tsan/libtessera.so ## cases with threads under TSan; TSAN_CASES= runs all
	TSAN_OPTIONS=report_signal_unsafe=0 TEST_FIRST=$(LIBTSAN) TEST_HOOK=tsan/libtessera.so $(B)/cases $(abspath $(B)) $(TSAN_CASES)
# (It cannot follow forks of threads, nor a robust mutex whose holder was killed.)
TSAN_CASES = thread many_threads random_operations
variants: all sim $(B)/cases $(STUBS) $(B)/o0/libtessera.so
	TEST_HOOK=o0/libtessera.so $(B)/cases $(abspath $(B)) rtld dlsym procaddress
sanitize: all sim $(B)/cases $(STUBS) $(B)/points/libtessera.so $(B)/asan/libtessera.so ## all cases under ASan and UBSan
	$(UNDER_ASAN) $(B)/cases $(abspath $(B))
# The other compiler: everything built anew, and the cases run on it.
.PHONY: clang
clang: ## build and test with clang
	$(MAKE) CC=clang B=$(B)/clang BUILD=$(B)/clang all unit symbols cases
.PHONY: bypass
bypass: cases ## leave out one wrapper after another: some case must fail (half an hour)
	sh tests/bypass.sh $(abspath $(B))
# Ten million random operations of eight processes, against what the machine says they hold.
.PHONY: soak
soak: all sim $(B)/cases
	SOAK=$${SOAK:-10000000} $(B)/cases $(abspath $(B)) random_operations
# Children of threads that allocate and ask NVML: one that hangs is ended by its alarm, and the case fails.
.PHONY: forks
forks: all sim $(B)/cases
	FORKS=$${FORKS:-100000} $(B)/cases $(abspath $(B)) vm_fork children_of
test: unit symbols cases variants sanitize tsan memcheck runtime released sim-test ## all tests; those on the real runtime libraries, and of the release, only after `make clients`

# The released library is built to load from glibc 2.17 on. ZIG: a compiler that brings old stubs,
# such as "python3 -m ziglang cc" from PyPI's ziglang.
ZIG ?= python3 -m ziglang cc
.PHONY: release aarch64 released
release: $(B)/release/libtessera.so ## build for glibc 2.17 and check the symbol versions
	sh tests/versions.sh $< 2.17
$(B)/release/libtessera.so: $(LIB) src/dlsym.S src/tessera.map $(HEADERS)
	@mkdir -p $(@D)
	$(ZIG) -target x86_64-linux-gnu.2.17 -O2 -flto $(BASE) -fPIC -ftls-model=initial-exec $(LDLIB) $(LIB) src/dlsym.S -o $@ -ldl
aarch64: $(B)/aarch64/libtessera.so ## compile for aarch64, and check that too
	sh tests/versions.sh $< 2.17
$(B)/aarch64/libtessera.so: $(LIB) src/dlsym.S src/tessera.map $(HEADERS)
	@mkdir -p $(@D)
	$(ZIG) -target aarch64-linux-gnu.2.17 -O2 -flto $(BASE) -fPIC -ftls-model=initial-exec $(LDLIB) $(LIB) src/dlsym.S -o $@ -ldl
released: cases
	@sh tests/release.sh $(abspath $(B)) $(PYTHON)

# Clients that nobody here wrote: PYTHON with cuda-bindings and nvidia-ml-py installed.
.PHONY: clients runtime
clients: cases ## cuda-bindings, nvidia-ml-py and the real runtime libraries (pip fetches these) under the hook
	sh tests/clients/run.sh $(abspath $(B)) $(PYTHON)
	sh tests/clients/runtime.sh $(abspath $(B)) $(PYTHON) fetch
	sh tests/release.sh $(abspath $(B)) $(PYTHON) fetch
runtime: all sim
	@sh tests/clients/runtime.sh $(abspath $(B)) $(PYTHON)
