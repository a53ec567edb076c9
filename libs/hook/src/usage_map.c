#include "usage_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "lock.h"
#include "log.h"
#include "relaxed.h"
#include "version.h"

#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

static struct tessera_usage *map TS_HOT;
static int fd = -1;
static dev_t device;
static ino_t inode;
static char where[512];
static struct tessera_head opened; /* the file's, when it was */
static ts_lock structure;

static int range_lock(int command, short type, uint64_t at) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    int r;
    do
        r = fcntl(fd, command, &range);
    while (r < 0 && errno == EINTR);
    if (command == F_OFD_GETLK)
        return r < 0 ? -1 : range.l_type != F_UNLCK;
    return r;
}

/* The application may have closed our descriptor and got its number for something else. */
static int descriptor_is_ours(struct stat *now) {
    return fd >= 0 && fstat(fd, now) == 0 && now->st_dev == device && now->st_ino == inode;
}

static int valid(const struct tessera_usage *usage) {
    return __atomic_load_n(&usage->head.magic, __ATOMIC_ACQUIRE) == TESSERA_USAGE_MAGIC &&
           usage->head.layout == TESSERA_LAYOUT && usage->head.size == TESSERA_USAGE_SIZE;
}

static void build(struct tessera_usage *usage) {
    uint32_t rebuilt = usage->head.sequence + 1;
    __atomic_store_n(&usage->head.magic, 0, __ATOMIC_RELEASE);
    memset(usage, 0, sizeof *usage);
    usage->head.layout = TESSERA_LAYOUT;
    usage->head.size = TESSERA_USAGE_SIZE;
    usage->head.sequence = rebuilt;
    usage->head.written_ns = ts_real();
    usage->version = TESSERA_VERSION;
    usage->slots = TESSERA_SLOTS;
    __atomic_store_n(&usage->head.magic, TESSERA_USAGE_MAGIC, __ATOMIC_RELEASE);
}

/* All blocks must exist before anybody writes through the mapping: a full file system would
 * otherwise be a SIGBUS in the application. */
static int make_whole(void) {
    struct stat now;
    if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode))
        return 0;
    device = now.st_dev;
    inode = now.st_ino;
    if (now.st_size >= (off_t)TESSERA_USAGE_SIZE && now.st_blocks * 512 >= (blkcnt_t)TESSERA_USAGE_SIZE)
        return 1;
    return posix_fallocate(fd, 0, TESSERA_USAGE_SIZE) == 0;
}

static struct tessera_usage *map_file(void) {
    void *at = mmap(NULL, TESSERA_USAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    /* A mapping keeps the descriptor's locks: a forked child must not keep its parent's mark of life. */
    (void)madvise(at, TESSERA_USAGE_SIZE, MADV_DONTFORK);
    return at;
}

static int open_shared(const char *path) {
    int low = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0666);
    if (low < 0)
        return 0;
    /* A high number is less likely to be closed by a program that tidies up after its parent. */
    fd = fcntl(low, F_DUPFD_CLOEXEC, 200);
    if (fd < 0)
        fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
    close(low);
    if (fd < 0)
        return 0;
    (void)fchmod(fd, 0666); /* other users of the container; never umask, which is the application's */
    ts_structure_lock();
    struct tessera_usage *fresh = make_whole() ? map_file() : NULL;
    if (fresh && !valid(fresh))
        build(fresh);
    ts_structure_unlock();
    if (fresh) {
        opened = fresh->head;
        __atomic_store_n(&map, fresh, __ATOMIC_RELEASE);
    }
    return fresh != NULL;
}

int ts_usage_open(const char *path) {
    ts_usage_forget();
    if (path && *path) {
        strncpy(where, path, sizeof where - 1);
        if (open_shared(path))
            return 1;
        ts_log(TS_LOG_WARNING, "usage file %s cannot be used (%s): counting alone", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    fd = -1;
    void *at = mmap(NULL, TESSERA_USAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return 0;
    build(at);
    opened = ((struct tessera_usage *)at)->head;
    __atomic_store_n(&map, at, __ATOMIC_RELEASE);
    return 0;
}

struct tessera_usage *ts_usage(void) {
    return __atomic_load_n(&map, __ATOMIC_ACQUIRE);
}

int ts_usage_shared(void) {
    return fd >= 0;
}

int ts_usage_current(void) {
    return valid(map) && ts_get(map->head.sequence) == opened.sequence && ts_get(map->head.written_ns) == opened.written_ns;
}

int ts_usage_intact(void) {
    struct stat ours, there;
    if (fd < 0)
        return 1;
    if (!descriptor_is_ours(&ours))
        return 0;
    if (ours.st_size < (off_t)TESSERA_USAGE_SIZE && posix_fallocate(fd, 0, TESSERA_USAGE_SIZE) != 0)
        return 0;
    if (stat(where, &there) == 0 && there.st_ino == inode && there.st_dev == device)
        return ts_usage_current();
    __atomic_add_fetch(&map->head.sequence, 1, __ATOMIC_RELAXED);
    return 0;
}

void ts_usage_not_inherited(void) {
    ts_usage_forget();
    map = NULL;
}

/* The old mapping stays: another thread may be inside it. This happens only when the file was
 * replaced. */
void ts_usage_forget(void) {
    struct stat now;
    if (descriptor_is_ours(&now))
        close(fd);
    fd = -1;
    structure.word = 0;
}

void ts_structure_lock(void) {
    ts_lock_take(&structure);
    if (fd >= 0 && range_lock(F_OFD_SETLKW, F_WRLCK, TESSERA_STRUCTURE_AT) < 0)
        ts_log_once(TS_LOG_WARNING, "no lock on the usage file: %s", strerror(errno));
}

void ts_structure_unlock(void) {
    if (fd >= 0)
        range_lock(F_OFD_SETLK, F_UNLCK, TESSERA_STRUCTURE_AT);
    ts_lock_give(&structure);
}

int ts_alive_hold(uint32_t slot) {
    return fd < 0 || range_lock(F_OFD_SETLK, F_WRLCK, TESSERA_ALIVE_AT + slot) == 0 || errno == EINVAL;
}

void ts_alive_drop(uint32_t slot) {
    if (fd >= 0)
        range_lock(F_OFD_SETLK, F_UNLCK, TESSERA_ALIVE_AT + slot);
}

int ts_alive_held(uint32_t slot) {
    return fd >= 0 ? range_lock(F_OFD_GETLK, F_WRLCK, TESSERA_ALIVE_AT + slot) : -1;
}

/* Lines of /proc/<pid>/maps: "from-to rwxs offset device inode path". */
int ts_usage_mapped_by(int pid) {
    char path[32], wanted[32], text[4096 + 1];
    size_t kept = 0;
    ssize_t got;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    snprintf(wanted, sizeof wanted, " %llu ", (unsigned long long)inode);
    int maps = open(path, O_RDONLY | O_CLOEXEC);
    if (maps < 0)
        return 1;
    while (!found && (got = read(maps, text + kept, sizeof text - 1 - kept)) > 0) {
        text[kept + (size_t)got] = 0;
        found = strstr(text, wanted) != NULL;
        kept += (size_t)got;
        size_t tail = kept < sizeof wanted ? kept : sizeof wanted; /* it may lie across two readings */
        memmove(text, text + kept - tail, tail);
        kept = tail;
    }
    close(maps);
    if (found || got < 0)
        return 1;
    /* Where our own is not to be found either, the kernel shows another number than stat does. */
    return pid != getpid() && !ts_usage_mapped_by(getpid());
}
