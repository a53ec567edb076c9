/* The way in: cuInit, what a forked child gets, object memory. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

_Thread_local unsigned sim_per_thread;

static enum { UNSEEN, READY, FORKED } phase;
static CUresult outcome;
static pthread_mutex_t local = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t last_id;

/* A context does not survive fork: the child of an initialised parent gets CUDA_ERROR_NOT_INITIALIZED from every call, as it does
 * from the real driver, and touches neither lock (another thread may have held it). */
static void in_child(void)
{
    if (phase == READY)
        phase = FORKED;
}

static void init(void)
{
    outcome = sim_open() && sim_process_attach() ? sim_devices_load() : CUDA_ERROR_OPERATING_SYSTEM;
    if (outcome == CUDA_SUCCESS) {
        pthread_atfork(NULL, NULL, in_child);
        phase = READY;
    }
}

CUresult cuInit(unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (phase == FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_once(&once, init);
    return outcome;
}

CUresult sim_ready(void) { return phase == READY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUresult cuDriverGetVersion(int *version)
{
    NEED(version);
    if (!sim_open())
        return CUDA_ERROR_OPERATING_SYSTEM;
    *version = (int)sim->config.cuda_version;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult value;
    const char *name, *text;
} results[] = {
#define ROW(name, value, text) {name, #name, text},
    CUDA_RESULTS(ROW)
#undef ROW
};

static CUresult describe(CUresult error, const char **out, bool name)
{
    NEED(out);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].value == error) {
            *out = name ? results[i].name : results[i].text;
            return CUDA_SUCCESS;
        }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **text) { return describe(error, text, true); }
CUresult cuGetErrorString(CUresult error, const char **text) { return describe(error, text, false); }

void sim_local_lock(void) { pthread_mutex_lock(&local); }
void sim_local_unlock(void) { pthread_mutex_unlock(&local); }
uint64_t sim_next_id(void) { return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED); }

/* Freed objects wait in lists by size, so a stale handle still points at readable memory with another or no magic. */
typedef struct Spare {
    uint32_t magic;
    size_t size;
    struct Spare *next;
} Spare;
static Spare *spares;
static pthread_mutex_t spares_lock = PTHREAD_MUTEX_INITIALIZER;

void *sim_object_new(uint32_t magic, size_t size)
{
    Spare *found = NULL;
    if (size < sizeof(Spare))
        size = sizeof(Spare);
    pthread_mutex_lock(&spares_lock);
    for (Spare **at = &spares; *at; at = &(*at)->next)
        if ((*at)->size == size) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&spares_lock);
    if (!found && !(found = malloc(size)))
        return NULL;
    memset(found, 0, size);
    memcpy(found, &magic, sizeof magic);
    return found;
}

void sim_object_free(void *object, size_t size)
{
    Spare *spare = object;
    spare->magic = 0;
    spare->size = size < sizeof(Spare) ? sizeof(Spare) : size;
    pthread_mutex_lock(&spares_lock);
    spare->next = spares;
    spares = spare;
    pthread_mutex_unlock(&spares_lock);
}
