/* Cases: each runs in its own process under the hook, over a fresh machine and fresh files. */
#ifndef TESSERA_TESTS_HARNESS_H
#define TESSERA_TESTS_HARNESS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "cuda_abi.h"
#include "nvml_abi.h"
#include "tessera/limits.h"
#include "tessera/usage.h"

#define MIB ((size_t)1 << 20)

struct test {
    const char *name;
    const char *limits; /* after "card=<uuid of card 0>", as tessera-limits takes it; NULL: no file */
    const char *sim;    /* words for the simulated machine */
    void (*run)(void);
};
#define TEST(name_, limits_, sim_)                                                                    \
    static void name_(void);                                                                          \
    static const struct test test_##name_ = {#name_, limits_, sim_, name_};                           \
    __attribute__((constructor)) static void add_##name_(void) { harness_add(&test_##name_); }        \
    static void name_(void)

void harness_add(const struct test *test);
#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "    %s:%d: %s\n", __FILE__, __LINE__, #condition);            \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)
#define EQUAL(a, b)                                                                                              \
    do {                                                                                                         \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                      \
        if (a_ != b_) {                                                                                          \
            fprintf(stderr, "    %s:%d: %s is %lld, %s is %lld\n", __FILE__, __LINE__, #a, a_, #b, b_);           \
            _exit(1);                                                                                            \
        }                                                                                                        \
    } while (0)

/* client side */
void *driver_get(const char *name); /* dlopen + dlsym, as an application does; NULL if there is none */
#define CU(symbol) ((PFN_##symbol)driver_get(#symbol))
void *nvml_get(const char *name);
#define NVML(symbol) ((PFN_##symbol)nvml_get(#symbol))
CUcontext begin(void); /* cuInit, primary context of device 0 made current */
CUfunction kernel(uint64_t ns);
CUresult allocate(size_t mib, CUdeviceptr *p);

/* the agent's side */
const char *dir(void);
void uuid_of(int card, char text[64]);
void set_limits(const char *words); /* for card 0, as in struct test */
const struct tessera_usage *usage(void);
int usage_is_there(void); /* whole: a process of the container has made it */
uint64_t charged(void); /* of the first record */

/* the machine's side */
uint64_t sim_used(void); /* bytes that all processes hold on card 0 */
uint64_t harness_now(void); /* of this machine, in nanoseconds */
uint64_t sim_now(void);
void sim_sleep(uint64_t ns);
uint64_t sim_busy(pid_t pid);

pid_t child(void (*run)(void *), void *with); /* forks and re-executes under the hook */
int wait_for(pid_t pid);                     /* exit status, or 128 + signal */
int until(int (*true_now)(void *), void *with); /* 0: not within a minute */

#endif
