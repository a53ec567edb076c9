/* Whether a file is the one that the agent mounted into the container. */
#ifndef TESSERA_SRC_MOUNT_H
#define TESSERA_SRC_MOUNT_H

/* The folder that the library is loaded from where the agent mounted it. */
#define TS_MOUNTED_AT "/usr/local/tessera/"

/* Whether this copy of the library was loaded from there, or from a read-only mount of its own (the
 * agent mounts it at a second place for some systems): then the limits file is mounted as well, and
 * nothing else is one. Elsewhere (a developer's machine, a test) nothing need be mounted. To be looked
 * at first, without a lock of ours: the loader takes its own. */
void ts_mount_look(void);
int ts_mount_required(void);

/* Open the file for reading. -1 with errno: it cannot be opened, a folder above it is a symbolic link,
 * or (EPERM) it is not the root of a read-only mount. */
int ts_mount_open(const char *path);

/* Whether ts_mount_open failed for want of something that comes back, and not because of the file. */
int ts_mount_is_passing(int error);

#endif
