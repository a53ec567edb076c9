#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opened for each message: no descriptor of ours stays open in the application for the log. */
static int open_log(void) {
    const char *path = getenv("TESSERA_LOG_FILE");
    if (!path || !*path)
        return -1;
    if (!strcmp(path, "stderr"))
        return dup(STDERR_FILENO);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
}

uint32_t ts_log_level;

static int level_wanted(void) {
    const char *text = getenv("TESSERA_LOG_LEVEL");
    uint32_t said = __atomic_load_n(&ts_log_level, __ATOMIC_RELAXED);
    if (text && *text)
        return atoi(text);
    return said ? (int)(said < TS_LOG_NOTE ? said : TS_LOG_NOTE) : TS_LOG_WARNING;
}

void ts_log(int level, const char *format, ...) {
    static const char *const names[] = {"", "error", "warning", "note"};
    if (level > level_wanted())
        return;
    int saved = errno;
    int fd = open_log();
    if (fd < 0) {
        errno = saved;
        return;
    }
    char line[512];
    int at = snprintf(line, sizeof line, "tessera[%d] %s: ", (int)getpid(), names[level]);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + at, sizeof line - (size_t)at - 1, format, args);
    va_end(args);
    size_t length = (size_t)at + (size_t)(more > 0 ? more : 0);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (write(fd, line, length) < 0)
        length = 0;
    close(fd);
    errno = saved;
}
