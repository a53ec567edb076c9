/* sim: memory=2g context=64m cards=1 clock=virtual
 * A process is killed at every point of every operation that changes the machine; what it held is always reclaimed, nothing else is
 * touched, and the totals stay sums. */
#include <signal.h>

#include "check.h"

static void work(void)
{
    CUdeviceptr p[8], async;
    CUipcMemHandle handle;
    CUstream stream;
    CUevent event;
    start();
    for (int i = 0; i < 8; i++)
        OK(cuMemAlloc_v2(&p[i], (uint64_t)(i + 1) * MIB));
    OK(cuIpcGetMemHandle(&handle, p[0]));
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&event, 0));
    CUfunction f = kernel("tessera-sim-module\nkernel k ns=100000\n", "k");
    for (int i = 0; i < 4; i++)
        OK(launch(f, 1000, stream));
    OK(cuMemAllocAsync(&async, 3 * MIB, stream));
    OK(cuEventRecord(event, stream));
    OK(cuMemFreeAsync(async, stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 8; i++)
        OK(cuMemFree_v2(p[i]));
    exit(0);
}

int main(int argc, char **argv)
{
    int points = 0, status = 0;
    if (argc > 1)
        work();
    CUdeviceptr mine;
    start();
    OK(cuMemAlloc_v2(&mine, 100 * MIB));
    uint64_t before = cuSimCardUsed(0);
    for (;;) {
        char at[16];
        snprintf(at, sizeof at, "%d", ++points);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("TESSERA_SIM_KILL_AT", at, 1);
            execl(argv[0], argv[0], "work", (char *)NULL);
            _exit(9);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        EQUAL(cuSimCardUsed(0), before);
        CHECK(cuSimConsistent());
        if (status == 0)
            break;
        CUdeviceptr p;
        OK(cuMemAlloc_v2(&p, 1848 * MIB)); /* everything that is left can be had */
        OK(cuMemFree_v2(p));
    }
    CHECK(points > 50);
    CHECK(cuSimRecoveries() >= (uint64_t)points - 1);
    printf("%d points ", points - 1);
    return 0;
}
