/* Processes that become others, load us twice, late or again; and what is left of the dead. */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define MS 1000000ull

/* exec: same process, same start time, but the memory of the program before it is gone. */
static void become(const char *program, const char *stage) {
    setenv("TEST_STAGE", stage, 1);
    execlp(program, program, "60", (char *)NULL);
    _exit(127);
}

TEST(a_program_that_starts_itself_again_holds_nothing, "memory=1024", NULL) {
    begin();
    EQUAL(allocate(1000, NULL), 0); /* the second time too */
    EQUAL(charged(), 1000 * MIB);
    if (!getenv("TEST_STAGE"))
        become("/proc/self/exe", "again");
}

TEST(a_program_that_becomes_another_gives_back, "memory=1024", NULL) {
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        EQUAL(allocate(1000, NULL), 0);
        EQUAL(charged(), 1000 * MIB);
        EQUAL(write(ready[1], "x", 1), 1);
        close(ready[0]);
        EQUAL(dup2(ready[1], 1), 1);
        become("sleep", "asleep");
    }
    EQUAL(read(ready[0], &c, 1), 1);
    begin();
    for (int i = 0; i < 6000 && allocate(1000, NULL) != 0; i++)
        usleep(10000); /* until it is another program */
    EQUAL(charged(), 1000 * MIB);
    EQUAL(waitpid(pid, NULL, WNOHANG), 0); /* which still runs */
    kill(pid, SIGKILL);
    wait_for(pid);
}

/* Whoever closed our descriptor holds what it holds, although nobody sees its mark of life. */
TEST(a_process_that_closed_our_file_is_not_taken_for_dead, "memory=1024", NULL) {
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        EQUAL(allocate(900, NULL), 0);
        for (int fd = 3; fd < 1024; fd++)
            if (fd != ready[1])
                close(fd);
        EQUAL(write(ready[1], "x", 1), 1);
        pause();
    }
    EQUAL(read(ready[0], &c, 1), 1);
    begin();
    EQUAL(allocate(200, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(charged(), 900 * MIB);
    kill(pid, SIGKILL);
    wait_for(pid);
    EQUAL(allocate(1024, NULL), 0);
}

TEST(a_forked_child_does_not_keep_its_parent_alive, "memory=1024", NULL) {
    int ready[2];
    pid_t grandchild;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        EQUAL(allocate(900, NULL), 0);
        grandchild = fork();
        if (grandchild == 0) {
            pid_t self = getpid();
            EQUAL(write(ready[1], &self, sizeof self), sizeof self);
        }
        pause();
    }
    EQUAL(read(ready[0], &grandchild, sizeof grandchild), sizeof grandchild);
    begin();
    EQUAL(allocate(900, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    kill(pid, SIGKILL);
    wait_for(pid);
    EQUAL(allocate(900, NULL), 0);
    EQUAL(kill(grandchild, SIGKILL), 0); /* it lived all the time */
}

static const char *copy_of_the_library(void) {
    static char copy[600];
    char command[1400];
    const char *first = strrchr(getenv("LD_PRELOAD"), ':');
    snprintf(copy, sizeof copy, "%s/second.so", dir());
    snprintf(command, sizeof command, "env -u LD_PRELOAD cp %s %s", first ? first + 1 : getenv("LD_PRELOAD"), copy);
    EQUAL(system(command), 0);
    return copy;
}

TEST(a_second_copy_before_the_first_lifts_nothing, "memory=64", NULL) {
    if (!getenv("TEST_STAGE")) {
        char both[1800];
        const char *first = getenv("TEST_FIRST"); /* a sanitizer's library stays the first */
        const char *copy = copy_of_the_library();
        snprintf(both, sizeof both, "%s%s%s:%s", first ? first : "", first ? ":" : "", copy, getenv("LD_PRELOAD"));
        setenv("LD_PRELOAD", both, 1);
        become("/proc/self/exe", "both");
    }
    begin();
    CUdeviceptr p;
    EQUAL(allocate(40, &p), 0);
    EQUAL(charged(), 40 * MIB);
    EQUAL(allocate(30, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(CU(cuMemFree_v2)(p), 0);
    EQUAL(charged(), 0);
}

TEST(a_second_copy_that_is_opened_lifts_nothing, "memory=64", NULL) {
    begin();
    EQUAL(allocate(40, NULL), 0);
    void *copy = dlopen(copy_of_the_library(), RTLD_NOW | RTLD_LOCAL);
    CHECK(copy);
    PFN_cuMemAlloc_v2 call = (PFN_cuMemAlloc_v2)(uintptr_t)dlsym(copy, "cuMemAlloc_v2");
    CUdeviceptr p;
    CHECK(call && (void *)(uintptr_t)call != driver_get("cuMemAlloc_v2"));
    EQUAL(call(&p, 30 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(call(&p, 20 * MIB), 0);
    EQUAL(charged(), 60 * MIB);
}

TEST(opened_late_and_closed_it_does_no_harm, "memory=64", NULL) {
    const char *preload = getenv("LD_PRELOAD");
    if (!getenv("TEST_STAGE")) {
        setenv("TEST_LATE", copy_of_the_library(), 1);
        getenv("TEST_FIRST") ? setenv("LD_PRELOAD", getenv("TEST_FIRST"), 1) : unsetenv("LD_PRELOAD");
        become("/proc/self/exe", preload);
    }
    begin();
    EQUAL(allocate(100, NULL), 0); /* nothing holds it here */
    void *late = dlopen(getenv("TEST_LATE"), RTLD_NOW | RTLD_GLOBAL);
    CHECK(late);
    PFN_cuMemAlloc_v2 call = (PFN_cuMemAlloc_v2)(uintptr_t)dlsym(late, "cuMemAlloc_v2");
    CUdeviceptr p;
    EQUAL(call(&p, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(call(&p, 10 * MIB), 0);
    EQUAL(dlclose(late), 0);
    EQUAL(CU(cuMemFree_v2)(p), 0); /* around it: nobody minds */
    EQUAL(call(&p, 10 * MIB), 0);  /* a pointer from before: it is not unloaded */
}

TEST(the_driver_may_be_closed_and_opened_again, "memory=64", NULL) {
    void *first = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))(uintptr_t)dlsym(first, "cuInit");
    PFN_cuMemAlloc_v2 call = (PFN_cuMemAlloc_v2)(uintptr_t)dlsym(first, "cuMemAlloc_v2");
    EQUAL(init(0), 0);
    EQUAL(dlclose(first), 0);
    CUdeviceptr p;
    begin();
    EQUAL(call(&p, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(allocate(64, &p), 0);
    EQUAL(charged(), 64 * MIB);
}

/* GPU time that was debited for a launch and never ran. */
TEST(the_debt_of_the_dead_is_not_inherited, "cores=10", "clock=virtual") {
    int ready[2];
    char c;
    EQUAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        CUfunction f = kernel(4000 * MS);
        for (int i = 0; i < 2; i++) { /* the first is waited for, and known then */
            EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
            if (!i)
                EQUAL(CU(cuCtxSynchronize)(), 0);
        }
        EQUAL(write(ready[1], "x", 1), 1);
        pause();
    }
    begin();
    CUfunction f = kernel(MS);
    EQUAL(read(ready[0], &c, 1), 1);
    int theirs = usage()->slot[0].pid == pid ? 0 : 1;
    int64_t debt = usage()->card[0].tokens_ns, outstanding = usage()->slot[theirs].outstanding_ns;
    CHECK(outstanding >= (int64_t)(3900 * MS) && debt < -(int64_t)(3000 * MS));
    kill(pid, SIGKILL);
    wait_for(pid);
    usleep(150000);
    uint64_t from = sim_now();
    for (int i = 0; i < 2; i++)
        EQUAL(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    CHECK(sim_now() - from < 10000 * MS); /* at a tenth of the card four seconds would take forty */
}

/* The tool for support, on the files of a program that runs. */
TEST(the_tool_prints_what_the_library_sees, "memory=64 cores=30", NULL) {
    char command[1200], text[8192];
    begin();
    EQUAL(allocate(40, NULL), 0);
    snprintf(command, sizeof command, "env -u LD_PRELOAD %s/tessera-hook-info", getenv("TEST_BUILD"));
    FILE *said = popen(command, "r");
    CHECK(said);
    size_t got = fread(text, 1, sizeof text - 1, said);
    text[got] = 0;
    EQUAL(pclose(said), 0);
    char uuid[64], pid[32];
    uuid_of(0, uuid);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    CHECK(strstr(text, uuid) && strstr(text, pid) && strstr(text, "64") && strstr(text, "40") && strstr(text, "30"));
}
