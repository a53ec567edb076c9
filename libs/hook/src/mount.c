/* The limits file is mounted read-only by the agent, as a mount of its own. A container that mounts a
 * volume above the mount point can have that removed by another container, which takes our mount off,
 * and put a file of its own there. That file is writable, or is no mount: it counts as none at all. */
#include "mount.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FOLDER (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

static dev_t device; /* of the file that was mounted when it was opened first */
static ino_t inode;  /* 0: none was yet */

int ts_mount_is_passing(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR || error == EIO;
}

static void close_keeping_errno(int fd) {
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
}

/* The folder that the file is in, no link followed; `name` becomes the file's own. */
static int open_folder(const char *path, const char **name) {
    char part[256];
    int at = open("/", FOLDER);
    for (path++; at >= 0; path = *name + 1) {
        *name = strchr(path, '/');
        if (!*name)
            break;
        snprintf(part, sizeof part, "%.*s", (int)(*name - path), path);
        int next = openat(at, part, FOLDER);
        close_keeping_errno(at);
        at = next;
    }
    *name = path;
    return at;
}

/* The kernel's number of the mount that a descriptor is on; -1: it cannot be known. */
static long mount_of(int fd) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int info = open(path, O_RDONLY | O_CLOEXEC);
    if (info < 0)
        return -1;
    ssize_t got = read(info, text, sizeof text - 1);
    close_keeping_errno(info);
    text[got > 0 ? got : 0] = 0;
    const char *found = strstr(text, "mnt_id:");
    return found ? strtol(found + sizeof "mnt_id:" - 1, NULL, 10) : -1;
}

static int is_read_only(int fd) {
    struct statvfs on;
    return fstatvfs(fd, &on) == 0 && (on.f_flag & ST_RDONLY);
}

static int is_own_mount(int fd, int folder) {
    long own = mount_of(fd);
    return own >= 0 && own != mount_of(folder);
}

/* The first one is remembered: the agent writes into the file that it made, and makes no other. */
static int is_the_agents(int fd, int folder) {
    struct stat now;
    if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || !is_read_only(fd))
        return 0;
    if (inode)
        return now.st_dev == device && now.st_ino == inode;
    if (!is_own_mount(fd, folder))
        return 0;
    device = now.st_dev;
    inode = now.st_ino;
    return 1;
}

static int required;

/* One file can be mounted at several places, and the loader keeps the name by which it met it first. */
static int is_mounted_library(const char *path) {
    char folder[4096];
    const char *end = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", end ? (int)(end - path + 1) : 2, end ? path : "./");
    int fd = open(path, O_RDONLY | O_CLOEXEC), at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int mounted = fd < 0 || at < 0 || (is_read_only(fd) && is_own_mount(fd, at));
    close_keeping_errno(fd);
    close_keeping_errno(at);
    return mounted;
}

void ts_mount_look(void) {
    Dl_info own;
    int known = dladdr(&inode, &own) && own.dli_fname;
    int is_here = known && !strncmp(own.dli_fname, TS_MOUNTED_AT, sizeof TS_MOUNTED_AT - 1);
    __atomic_store_n(&required, !known || is_here || is_mounted_library(own.dli_fname), __ATOMIC_RELAXED);
}

int ts_mount_required(void) {
    return __atomic_load_n(&required, __ATOMIC_RELAXED);
}

int ts_mount_open(const char *path) {
    const char *name;
    int folder = open_folder(path, &name);
    if (folder < 0)
        return -1;
    int fd = openat(folder, name, FILE_FLAGS);
    if (fd >= 0 && !is_the_agents(fd, folder)) {
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    close_keeping_errno(folder);
    return fd;
}
