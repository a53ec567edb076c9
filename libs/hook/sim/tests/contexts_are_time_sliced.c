/* sim: clock=virtual participants=2 memory=4g
 * Kernels of two processes take turns of 2 ms; event times include what the other's turns took; alone a process loses nothing. */
#include "check.h"

static const char text[] = "tessera-sim-module\nkernel ten ns=10000000\nkernel short ns=5000\nkernel second ns=1000000000\n";

static double timed(CUfunction f, int times)
{
    CUevent a, b;
    float ms;
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    OK(cuEventRecord(a, NULL));
    for (int i = 0; i < times; i++)
        OK(launch(f, 1000, NULL));
    OK(cuEventRecord(b, NULL));
    OK(cuEventSynchronize(b));
    OK(cuEventElapsedTime(&ms, a, b));
    OK(cuEventDestroy_v2(a));
    OK(cuEventDestroy_v2(b));
    return (double)ms;
}

static int child(void)
{
    start();
    CUfunction ten = kernel(text, "ten");
    cuSimJoin();
    cuSimSleep(1000); /* both are here now: the machine's time has begun */
    BETWEEN(timed(ten, 1), 17.9, 20.1); /* 10 ms of work, half of every pair of slices */
    cuSimSleep(1000000000 - cuSimNow());
    BETWEEN(timed(ten, 50), 990, 1010);
    return 0;
}

int main(void)
{
    pid_t pid = fork();
    if (pid == 0)
        exit(child());
    start();
    CUfunction ten = kernel(text, "ten"), brief = kernel(text, "short"), second = kernel(text, "second");
    cuSimJoin();
    cuSimSleep(1000);
    BETWEEN(timed(ten, 1), 17.9, 20.1);
    cuSimSleep(1000000000 - cuSimNow());
    uint64_t before = cuSimBusy(0, getpid());
    BETWEEN(timed(ten, 50), 990, 1010);
    BETWEEN((double)(cuSimBusy(0, getpid()) - before) / 1e6, 499, 501);
    cuSimLeave(); /* waitpid is no waiting that the machine knows of */
    expect_exit(pid, 0);

    BETWEEN(timed(ten, 1), 10, 10); /* alone again */
    BETWEEN(timed(brief, 1000), 5, 5);
    uint64_t from = cuSimNow();
    for (int i = 0; i < 60; i++) {
        OK(launch(second, 1000, NULL));
        OK(cuCtxSynchronize());
    }
    EQUAL(cuSimNow() - from, UINT64_C(60000000000)); /* a minute of virtual time */
    return 0;
}
