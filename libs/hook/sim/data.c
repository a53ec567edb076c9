/* Contents of device memory: kept once something was written, in host memory that the kernel provides page by page; zero before.
 * Transfers longer than the configured bound are checked but their contents are not kept. */
#include "driver.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Contents of a shared block live in a file beside the state, so every holder sees them. What was there before moves over. */
bool sim_block_data(uint32_t block, size_t bytes, unsigned char **data)
{
    char path[4200];
    sim_block_path(block, path, sizeof path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    bool sized = ftruncate(fd, (off_t)bytes) == 0;
    void *p = sized ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED)
        return false;
    if (*data) {
        memcpy(p, *data, bytes < sim->config.data_bytes ? bytes : sim->config.data_bytes);
        munmap(*data, bytes);
    }
    *data = p;
    return true;
}

unsigned char *sim_data(CUdeviceptr address, size_t bytes, bool write)
{
    Range *r = sim_range_at(address);
    unsigned char **data = &r->data;
    size_t offset = address - r->base, size = r->size;
    if (r->kind == RANGE_MANAGED || r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED)
        return (unsigned char *)(uintptr_t)address;
    if (r->kind == RANGE_MAPPED) {
        data = &r->phys->data;
        offset += r->phys_offset;
        size = r->phys->bytes;
    }
    if (!*data && write && bytes <= sim->config.data_bytes)
        *data = pages(size);
    return *data ? *data + offset : NULL;
}

/* How far from here one source of bytes reaches; false: no memory of ours, though its address is in our range. */
static bool reach(CUdeviceptr p, const void *host, size_t bytes, size_t *length)
{
    *length = bytes;
    if (host)
        return true;
    Range *r = sim_range_at(p);
    if (!r)
        return !sim_va_ours(p); /* pageable memory of the host */
    size_t left = r->size - (p - r->base);
    if (left < bytes)
        *length = left;
    return true;
}

static unsigned char *at(CUdeviceptr p, const void *host, size_t bytes, bool write)
{
    if (host)
        return (unsigned char *)(uintptr_t)host;
    return sim_range_at(p) ? sim_data(p, bytes, write) : (unsigned char *)(uintptr_t)p;
}

/* Copies between any two places; a NULL host pointer means the device address beside it. */
CUresult sim_copy(CUdeviceptr dst, void *host_dst, CUdeviceptr src, const void *host_src, size_t bytes)
{
    bool keep = bytes <= sim->config.data_bytes;
    while (bytes) {
        size_t n, m;
        if (!reach(dst, host_dst, bytes, &n) || !reach(src, host_src, bytes, &m))
            return CUDA_ERROR_INVALID_VALUE;
        n = n < m ? n : m;
        const unsigned char *from = keep ? at(src, host_src, n, false) : NULL;
        unsigned char *to = keep ? at(dst, host_dst, n, from != NULL) : NULL;
        if (to && from)
            memmove(to, from, n);
        else if (to)
            memset(to, 0, n); /* never written: zero */
        bytes -= n;
        dst += n;
        src += n;
        host_dst = host_dst ? (char *)host_dst + n : NULL;
        host_src = host_src ? (const char *)host_src + n : NULL;
    }
    return CUDA_SUCCESS;
}
