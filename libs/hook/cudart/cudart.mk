# A CUDA runtime library of our own, for real programs on the simulated driver: build/cudart/libcudart.so.13.
CUDART := $(wildcard cudart/*.c)
.PHONY: cudart
cudart: $(B)/cudart/libcudart.so.13 ## build the stand-in for the CUDA runtime library
$(B)/cudart/libcudart.so.13: $(CUDART) cudart/cudart.h cudart/cudart.map $(wildcard abi/*)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=c11 -D_GNU_SOURCE $(WARN) -Iabi -fPIC -fvisibility=hidden -shared -Wl,-soname,libcudart.so.13 \
	  -Wl,-Bsymbolic -Wl,--version-script=cudart/cudart.map $(CUDART) -o $@ -ldl -lpthread
.PHONY: cudart-test
cudart-test: all sim cudart ## test that library, without the hook and under it
	@sh cudart/check.sh $(abspath $(B)) $(PYTHON)
test: cudart-test
