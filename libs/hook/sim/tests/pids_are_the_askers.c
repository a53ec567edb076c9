/* sim: context=50m
 * Processes of two containers with pid namespaces of their own, as NVML outside sees them, and as it sees them from inside. */
#include <sched.h>

#include "check.h"

static int told[2], go[2];

/* The first process of a namespace of its own: number 1 there. It says what NVML shows it. */
static void tenant(void)
{
    CUdeviceptr p;
    nvmlDevice_t d;
    nvmlProcessInfo_t list[8];
    unsigned n = 8;
    start();
    OK(cuMemAlloc_v2(&p, 100 * MIB));
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
    OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, list));
    char said[2] = {(char)n, (char)list[0].pid};
    CHECK(write(told[1], said, 2) == 2);
    CHECK(read(go[0], said, 1) == 1);
}

int main(void)
{
    nvmlDevice_t d;
    nvmlProcessInfo_t list[8];
    unsigned n = 8;
    int status;
    char said[2];
    pid_t shell[2];
    CHECK(pipe(told) == 0 && pipe(go) == 0);
    for (int i = 0; i < 2; i++) {
        shell[i] = fork();
        if (shell[i] == 0) {
            if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
                exit(write(told[1], "\0\0", 2) != 2);
            pid_t first = fork();
            if (first == 0) {
                tenant();
                exit(0);
            }
            CHECK(waitpid(first, &status, 0) == first);
            exit(status != 0);
        }
        CHECK(read(told[0], said, 2) == 2);
        if (!said[0]) {
            fprintf(stderr, "no pid namespaces to be had here: skipped\n");
            return getenv("CI") != NULL;
        }
        CHECK(said[0] == 1 && said[1] == 1); /* itself alone, by its own number */
    }
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
    OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, list));
    EQUAL(n, 2);
    for (unsigned i = 0; i < n; i++) {
        char path[64], line[256] = "";
        CHECK(list[i].pid > 1 && list[i].pid != list[!i].pid);
        snprintf(path, sizeof path, "/proc/%u/status", list[i].pid);
        FILE *file = fopen(path, "r");
        CHECK(file);
        while (fgets(line, sizeof line, file) && strncmp(line, "NSpid:", 6))
            ;
        fclose(file);
        unsigned outside, inside;
        EQUAL(sscanf(line, "NSpid: %u %u", &outside, &inside), 2);
        CHECK(outside == list[i].pid && inside == 1);
    }
    CHECK(write(go[1], "xx", 2) == 2);
    for (int i = 0; i < 2; i++)
        CHECK(waitpid(shell[i], &status, 0) == shell[i] && status == 0);
    n = 8;
    OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, list));
    EQUAL(n, 0);
    return 0;
}
