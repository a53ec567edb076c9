/* What a neighbour takes of the card while a container loads code is not that code. */
#include <elf.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define HEADERS 3

/* A cubin of 2 MiB of code and 10 MiB of zeroed variables, as its sections say. */
static struct {
    Elf64_Ehdr head;
    Elf64_Shdr section[HEADERS];
} cubin = {
    .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}, .e_machine = 190, .e_shoff = sizeof(Elf64_Ehdr),
             .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = HEADERS},
    .section = {{.sh_type = SHT_NULL},
                {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_size = 2 << 20},
                {.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_WRITE, .sh_size = 10 << 20}},
};

static void go_on(const char *program, const char *stop_at, const char *preload) {
    setenv("TEST_CASE", program, 1);
    if (stop_at)
        setenv("TESSERA_STOP_AT", stop_at, 1);
    if (preload)
        setenv("LD_PRELOAD", preload, 1);
    else
        unsetenv("LD_PRELOAD");
    execl("/proc/self/exe", "cases", "x", (char *)NULL);
    _exit(127);
}

/* The program stops where it loads code; then a neighbour, of which the library knows nothing, takes 300 MiB. */
static void next_to_a_neighbour(const char *program) {
    char hook[512], c;
    int status, taken[2];
    snprintf(hook, sizeof hook, "%s/points/libtessera.so", getenv("TEST_BUILD"));
    pid_t pid = fork();
    if (pid == 0)
        go_on(program, "code: loads", hook);
    EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
    EQUAL(pipe(taken), 0);
    pid_t neighbour = fork();
    if (neighbour == 0) {
        EQUAL(dup2(taken[1], 100), 100);
        go_on("a_neighbour_takes_memory", NULL, NULL);
    }
    EQUAL(read(taken[0], &c, 1), 1);
    kill(pid, SIGCONT);
    EQUAL(wait_for(pid), 0);
    kill(neighbour, SIGKILL);
    wait_for(neighbour);
}

TEST(a_neighbour_takes_memory, "memory=1024", NULL) {
    if (getenv("LD_PRELOAD"))
        return; /* by itself it shows nothing */
    begin();
    EQUAL(allocate(300, NULL), 0);
    EQUAL(write(100, "x", 1), 1);
    pause();
}

static void load_a_cubin(void) {
    CUmodule module;
    CUfunction f;
    begin();
    uint64_t before = charged();
    EQUAL(CU(cuModuleLoadData)(&module, &cubin), 0); /* the neighbour's 300 MiB are gone then, and no code is there */
    CHECK(charged() - before <= 16 * MIB);
    EQUAL(CU(cuModuleGetFunction)(&f, module, "k"), 0);
    CHECK(charged() - before >= 12 * MIB && charged() - before <= 16 * MIB);
    EQUAL(CU(cuModuleUnload)(module), 0);
    EQUAL(charged(), before);
}

TEST(what_a_neighbour_takes_is_not_code, "memory=1024 card_flags=2", "module=12m context=100m") {
    if (getenv("TESSERA_STOP_AT"))
        load_a_cubin();
    else
        next_to_a_neighbour("what_a_neighbour_takes_is_not_code");
}

/* It is the library that has a size, however many kernels it is loaded by, and on whatever card. */
static void load_a_library(void) {
    CUlibrary library;
    CUkernel k[2];
    CUfunction f;
    begin();
    uint64_t before = charged();
    EQUAL(CU(cuLibraryLoadData)(&library, &cubin, NULL, NULL, 0, NULL, NULL, 0), 0);
    EQUAL(CU(cuLibraryGetKernel)(&k[0], library, "a"), 0);
    EQUAL(CU(cuLibraryGetKernel)(&k[1], library, "b"), 0);
    EQUAL(CU(cuKernelGetFunction)(&f, k[0]), 0);
    EQUAL(CU(cuLaunchKernel)((CUfunction)k[1], 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
    CHECK(charged() - before >= 12 * MIB && charged() - before <= 16 * MIB);
    EQUAL(CU(cuCtxSynchronize)(), 0);
    EQUAL(CU(cuLibraryUnload)(library), 0);
    EQUAL(charged(), before);
}

TEST(what_a_neighbour_takes_is_not_code_of_a_library, "memory=1024 card_flags=2", "module=12m context=100m") {
    if (getenv("TESSERA_STOP_AT"))
        load_a_library();
    else
        next_to_a_neighbour("what_a_neighbour_takes_is_not_code_of_a_library");
}

/* A text says nothing: then it is no more than 64 MiB, and the pages that these are rounded to. */
static void load_a_text(void) {
    begin();
    uint64_t before = charged();
    kernel(1000);
    CHECK(charged() - before >= 12 * MIB && charged() - before <= 68 * MIB);
}

TEST(what_a_neighbour_takes_is_not_code_of_unknown_size, "memory=1024 card_flags=2", "module=12m context=100m") {
    if (getenv("TESSERA_STOP_AT"))
        load_a_text();
    else
        next_to_a_neighbour("what_a_neighbour_takes_is_not_code_of_unknown_size");
}
