/* probe: one small client of the driver for a machine with a real GPU.
 *   probe uuid | routing | memory LIMIT_MIB | whole | resets | sharing HANDLES | cost [ROUNDS] | view | hold MIB SECONDS
 *   probe spin KERNEL_US SECONDS sync|async [STREAMS] [one|all] [graph] */
#include "probe.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

void *probe_driver;

void *probe_try(const char *name) { return dlsym(probe_driver, name); }

void *probe_get(const char *name) {
    void *f = probe_try(name);
    if (!f) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(3);
    }
    return f;
}

double probe_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

CUcontext probe_open(CUdevice *device) {
    CUdevice first;
    CUcontext context;
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&first, 0));
    MUST(CU(cuDevicePrimaryCtxRetain)(&context, first));
    MUST(CU(cuCtxSetCurrent)(context));
    if (device)
        *device = first;
    return context;
}

size_t probe_free(void) {
    size_t left, total;
    MUST(CU(cuMemGetInfo_v2)(&left, &total));
    return left;
}

void probe_expect(const char *what, long long got, long long wanted) {
    printf("check %s %s (%lld)\n", what, got == wanted ? "ok" : "WRONG", got);
    fflush(stdout);
}

/* Runs until it has been on the card for so long: time is read from the card's own clock, and a jump of more than 20 us between two
 * readings is another's turn, which does not count. So the work of a kernel depends neither on the SM's clock nor on who else is there.
 * The first thread adds to out: one kernel, its time on the card, its time from begin to end. */
static const char ptx[] =
    ".version 6.4\n.target sm_%d\n.address_size 64\n"
    ".visible .entry spin(.param .u64 ns, .param .u64 out)\n{\n"
    " .reg .u64 %%rd<11>;\n .reg .u32 %%r<4>;\n .reg .pred %%p<5>;\n"
    " ld.param.u64 %%rd1, [ns];\n ld.param.u64 %%rd2, [out];\n"
    " mov.u64 %%rd3, %%globaltimer;\n mov.u64 %%rd4, %%rd3;\n mov.u64 %%rd5, 0;\n"
    "LOOP:\n mov.u64 %%rd6, %%globaltimer;\n sub.u64 %%rd7, %%rd6, %%rd4;\n mov.u64 %%rd4, %%rd6;\n"
    " setp.lt.u64 %%p1, %%rd7, 20000;\n @%%p1 add.u64 %%rd5, %%rd5, %%rd7;\n"
    " setp.lt.u64 %%p2, %%rd5, %%rd1;\n @%%p2 bra LOOP;\n"
    " mov.u32 %%r1, %%tid.x;\n mov.u32 %%r2, %%ctaid.x;\n or.b32 %%r3, %%r1, %%r2;\n"
    " setp.ne.u32 %%p3, %%r3, 0;\n @%%p3 bra DONE;\n setp.eq.u64 %%p4, %%rd2, 0;\n @%%p4 bra DONE;\n"
    " atom.global.add.u64 %%rd8, [%%rd2], 1;\n add.u64 %%rd9, %%rd2, 8;\n atom.global.add.u64 %%rd8, [%%rd9], %%rd5;\n"
    " sub.u64 %%rd10, %%rd6, %%rd3;\n add.u64 %%rd9, %%rd2, 16;\n atom.global.add.u64 %%rd8, [%%rd9], %%rd10;\n"
    "DONE:\n ret;\n}\n";

CUfunction probe_spin(void) {
    static const int targets[] = {52, 70, 75, 80, 90};
    char text[sizeof ptx + 16];
    CUmodule module;
    CUfunction function;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    if (probe_try("cuSimNow")) /* the simulated driver has kernels of its own kind */
        r = CU(cuModuleLoadData)(&module, "tessera-sim-module\nkernel spin ns=arg0\n");
    for (size_t i = 0; i < sizeof targets / sizeof *targets && r != CUDA_SUCCESS; i++) {
        snprintf(text, sizeof text, ptx, targets[i]);
        r = CU(cuModuleLoadData)(&module, text);
    }
    MUST(r);
    MUST(CU(cuModuleGetFunction)(&function, module, "spin"));
    return function;
}

CUresult probe_launch(CUfunction f, unsigned blocks, uint64_t ns, CUdeviceptr out, CUstream stream) {
    static PFN_cuLaunchKernel call;
    uint64_t address = out;
    void *params[] = {&ns, &address};
    if (!call)
        call = CU(cuLaunchKernel);
    return call(f, blocks, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static void uuid(void) {
    CUuuid id;
    CUdevice device;
    MUST(CU(cuInit)(0));
    MUST(CU(cuDeviceGet)(&device, 0));
    MUST(CU(cuDeviceGetUuid_v2)(&id, device));
    const unsigned char *b = (const unsigned char *)id.bytes;
    printf("GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1], b[2], b[3], b[4],
           b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void hold(size_t mib, unsigned seconds) {
    CUdeviceptr p;
    probe_open(NULL);
    MUST(CU(cuMemAlloc_v2)(&p, mib * MIB));
    printf("held\n");
    fflush(stdout);
    sleep(seconds);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    probe_driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!probe_driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    if (!strcmp(what, "uuid"))
        uuid();
    else if (!strcmp(what, "routing"))
        routing();
    else if (!strcmp(what, "memory") && argc > 2)
        memory((size_t)atol(argv[2]));
    else if (!strcmp(what, "whole"))
        whole();
    else if (!strcmp(what, "resets"))
        resets();
    else if (!strcmp(what, "sharing") && argc > 2)
        sharing(atoi(argv[2]));
    else if (!strcmp(what, "cost"))
        cost(argc > 2 ? atoi(argv[2]) : 5);
    else if (!strcmp(what, "view"))
        view();
    else if (!strcmp(what, "hold") && argc > 3)
        hold((size_t)atol(argv[2]), (unsigned)atoi(argv[3]));
    else if (!strcmp(what, "spin") && argc > 4)
        spin(atof(argv[2]), atof(argv[3]), !strcmp(argv[4], "sync"), argc > 5 ? atoi(argv[5]) : 1, argc > 6 && !strcmp(argv[6], "all"), argc > 7);
    else
        return 2;
    return 0;
}
