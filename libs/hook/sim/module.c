/* Modules. Our own text form names kernels and their durations:
 *
 *   tessera-sim-module bytes=4m            (bytes: device memory that the module takes; else the machine's setting)
 *   kernel NAME ns=50000                   every launch takes so long alone on the card
 *   kernel NAME ns_per_wave=2000           so long for every SM's worth of blocks
 *   kernel NAME ns=arg0                    the first kernel parameter is a uint64_t holding the nanoseconds
 *   global NAME bytes=64
 *
 * Any other image (PTX, cubin, fatbin) is taken to hold whatever is asked for, with the machine's default duration.
 *
 * With lazy=1, the default since CUDA 12.2, a module takes its device memory when a function or a variable of it is first asked for, and
 * one of a library when a kernel of it is first launched or made a function (assumed: all of a module at once). */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char heading[] = "tessera-sim-module";

static uint64_t size_of(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    return *end == 'k' ? n << 10 : *end == 'm' ? n << 20 : *end == 'g' ? n << 30 : n;
}

static CUfunction new_function(CUmodule module, const char *name)
{
    CUfunction f = sim_object_new(SIM_FUNCTION, sizeof *f);
    if (!f)
        return NULL;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->module = module;
    f->ns = sim->config.kernel_ns;
    f->block_threads = 1;
    f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    f->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    f->attribute[CU_FUNC_ATTRIBUTE_PTX_VERSION] = f->attribute[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 80;
    f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    f->next = module->functions;
    return module->functions = f;
}

static void read_line(CUmodule module, char *line)
{
    char name[128] = "", *option;
    if (sscanf(line, "kernel %127s", name) == 1) {
        CUfunction f = new_function(module, name);
        if (!f)
            return;
        if (strstr(line, " ns=arg0"))
            f->from_argument = true;
        else if ((option = strstr(line, " ns=")))
            f->ns = strtoull(option + 4, NULL, 0);
        if ((option = strstr(line, " ns_per_wave=")))
            f->ns_per_wave = strtoull(option + 13, NULL, 0);
    } else if (sscanf(line, "global %127s", name) == 1) {
        struct Global *g = calloc(1, sizeof *g);
        if (!g)
            return;
        memcpy(g->name, name, sizeof name);
        g->bytes = (option = strstr(line, " bytes=")) ? size_of(option + 7) : 4;
        g->next = module->globals;
        module->globals = g;
    } else if (strncmp(line, heading, sizeof heading - 1) == 0 && (option = strstr(line, " bytes="))) {
        module->held = size_of(option + 7);
    }
}

static void read_text(CUmodule module, const char *image)
{
    char *text = strdup(image), *save = NULL;
    module->closed = true;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
        read_line(module, line);
    free(text);
}

CUresult sim_module_load(CUmodule m)
{
    static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&loading);
    bool loaded = m->loaded || sim_context_charge(m->ctx, m->held);
    m->loaded = loaded;
    pthread_mutex_unlock(&loading);
    return loaded ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = sim_unsafe()))
        return r;
    CUmodule m = sim_object_new(SIM_MODULE, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->ctx = ctx;
    m->ctx_id = ctx->id;
    m->held = sim->config.module_bytes;
    if (strncmp(image, heading, sizeof heading - 1) == 0)
        read_text(m, image);
    if (!sim->config.lazy && (r = sim_module_load(m))) {
        sim_object_free(m, sizeof *m);
        return r;
    }
    *module = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
    if (count && (!options || !values))
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    ENTER();
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "re");
    char *image = calloc(1, 1 << 20);
    size_t n = file && image ? fread(image, 1, (1 << 20) - 1, file) : 0;
    CUresult r = !file ? CUDA_ERROR_FILE_NOT_FOUND : n ? cuModuleLoadData(module, image) : CUDA_ERROR_INVALID_IMAGE;
    if (file)
        fclose(file);
    free(image);
    return r;
}

static bool alive(CUmodule m) { return m && m->magic == SIM_MODULE && sim_context_alive(m->ctx, m->ctx_id); }

CUresult cuModuleUnload(CUmodule module)
{
    ENTER();
    if (!alive(module))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_unsafe();
    if (r)
        return r;
    for (CUfunction f = module->functions, next; f; f = next) {
        next = f->next;
        sim_object_free(f, sizeof *f);
    }
    for (struct Global *g = module->globals, *next; g; g = next) {
        next = g->next;
        sim_local_lock();
        Range *range = g->ptr ? sim_range_at(g->ptr) : NULL;
        if (range)
            sim_forget_range(range);
        sim_local_unlock();
        free(g);
    }
    if (module->loaded)
        sim_context_uncharge(module->ctx, module->ctx_id, module->held);
    sim_object_free(module, sizeof *module);
    return CUDA_SUCCESS;
}

CUresult sim_module_function(CUfunction *function, CUmodule module, const char *name)
{
    ENTER();
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!alive(module))
        return CUDA_ERROR_INVALID_HANDLE;
    for (CUfunction f = module->functions; f; f = f->next)
        if (strcmp(f->name, name) == 0) {
            *function = f;
            return CUDA_SUCCESS;
        }
    if (module->closed)
        return CUDA_ERROR_NOT_FOUND;
    *function = new_function(module, name);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult r = sim_module_function(function, module, name);
    return r ? r : sim_module_load(module);
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    ENTER();
    if (!count || !alive(module))
        return CUDA_ERROR_INVALID_VALUE;
    *count = 0;
    for (CUfunction f = module->functions; f; f = f->next)
        ++*count;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    ENTER();
    if (!functions || !count || !alive(module))
        return CUDA_ERROR_INVALID_VALUE;
    for (CUfunction f = module->functions; f && count; f = f->next, count--)
        *functions++ = f;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module, const char *name)
{
    ENTER();
    if (!name || !alive(module))
        return CUDA_ERROR_INVALID_VALUE;
    for (struct Global *g = module->globals; g; g = g->next) {
        if (strcmp(g->name, name))
            continue;
        CUresult r = sim_module_load(module);
        if (!r && !g->ptr)
            r = cuMemAlloc_v2(&g->ptr, g->bytes);
        if (dptr)
            *dptr = g->ptr;
        if (bytes)
            *bytes = g->bytes;
        return r;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    ENTER();
    NEED(mode);
    *mode = sim->config.lazy ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

Kernel sim_kernel(CUfunction f, uint64_t gx, uint64_t gy, uint64_t gz, void **params, void **extra)
{
    uint32_t sms = sim->config.card[f->module->ctx->card].sms;
    uint64_t plane = gx * gy; /* each below 2^31: no overflow */
    uint64_t blocks = plane > UINT64_MAX / gz ? UINT64_MAX : plane * gz;
    uint64_t waves = blocks / sms + (blocks % sms != 0);
    Kernel k = {.ns = f->ns};
    if (f->from_argument && params && params[0]) {
        memcpy(&k.ns, params[0], sizeof k.ns);
    } else if (f->from_argument && extra) {
        for (void **at = extra; *at != CU_LAUNCH_PARAM_END; at += 2)
            if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
                memcpy(&k.ns, at[1], sizeof k.ns);
    }
    if (f->ns_per_wave)
        k.ns = waves > UINT64_MAX / f->ns_per_wave ? UINT64_MAX : waves * f->ns_per_wave;
    if (k.ns > UINT64_C(1000000000000000))
        k.ns = UINT64_C(1000000000000000); /* eleven days */
    k.demand = blocks >= sms ? SIM_FULL : (uint32_t)(blocks * SIM_FULL / sms);
    k.demand += k.demand == 0;
    return k;
}
