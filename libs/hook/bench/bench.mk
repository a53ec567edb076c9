$(B)/stub/libcuda.so.1: tests/stub/stub_cuda.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=gnu11 -Iabi -fPIC -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic $< -o $@
$(B)/bench-hook: bench/hook.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=gnu11 -Wall -Wextra -Iabi $< -o $@ -ldl
$(B)/bench-cores: bench/cores.c tests/harness.c tests/tenants.c tests/harness.h tests/tenants.h $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -O1 -g $(TESTFLAGS) -Itests bench/cores.c tests/harness.c tests/tenants.c -o $@ -ldl
bench: all sim $(B)/stub/libcuda.so.1 $(B)/bench-hook $(B)/bench-cores ## overhead against the bare call, and accuracy of GPU time
	bench/hook.sh $(B)
	sh bench/cores.sh $(abspath $(B))
