/* Reads limits files that a fuzzer makes, under the sanitizers: length and bytes of one after the
 * other come in, '1' or '0' goes out for each, as it is taken or not. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "limits.h"

enum { MOST = 1 << 20 };

static int taken(const char *path, const unsigned char *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        exit(2);
    struct tessera_limits *out = malloc(sizeof *out); /* exact: the sanitizer sees what passes it */
    if (!out)
        exit(2);
    int valid = ts_limits_read(path, out) == 1;
    if (valid && !ts_limits_valid(out))
        abort();
    free(out);
    return valid;
}

int main(int argc, char **argv) {
    static unsigned char data[MOST];
    uint32_t size;
    if (argc != 2)
        return 2;
    while (fread(&size, sizeof size, 1, stdin) == 1) {
        if (size > MOST || fread(data, 1, size, stdin) != size)
            return 2;
        putchar(taken(argv[1], data, size) ? '1' : '0');
    }
    unlink(argv[1]);
    return 0;
}
