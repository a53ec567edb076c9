/* sim: clock=virtual participants=2 memory=4g mps=1
 * Under MPS contexts of several processes are on the card at once, and NVML lists them apart and does not measure them. */
#include "check.h"

static double timed(CUfunction f, unsigned blocks)
{
    uint64_t from = cuSimNow();
    OK(launch(f, blocks, NULL));
    OK(cuCtxSynchronize());
    return (double)(cuSimNow() - from) / 1e6;
}

static void both(void)
{
    CUfunction ten = kernel("tessera-sim-module\nkernel ten ns=10000000\n", "ten");
    cuSimJoin();
    cuSimSleep(1000);
    BETWEEN(timed(ten, 54), 10, 10.1); /* half of the SMs each: as if alone */
    cuSimSleep(1000000000 - cuSimNow());
    BETWEEN(timed(ten, 108), 19.9, 20.1); /* all SMs each: half as fast */
}

int main(void)
{
    nvmlDevice_t d;
    nvmlProcessInfo_t infos[8];
    nvmlProcessUtilizationSample_t samples[8];
    unsigned n = 8;
    int gate[2];
    char c;
    CHECK(pipe(gate) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        start();
        both();
        cuSimLeave();
        close(gate[1]);
        CHECK(read(gate[0], &c, 1) == 0);
        exit(0);
    }
    start();
    both();
    cuSimSleep(1000000000);
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
    OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos));
    EQUAL(n, 0);
    n = 8;
    OK(nvmlDeviceGetMPSComputeRunningProcesses_v3(d, &n, infos));
    EQUAL(n, 2);
    n = 8;
    EQUAL(nvmlDeviceGetProcessUtilization(d, samples, &n, 0), NVML_ERROR_NOT_FOUND);
    CHECK(cuSimBusy(0, getpid()) >= 30000000);
    cuSimLeave();
    close(gate[1]);
    expect_exit(pid, 0);
    return 0;
}
