/* How much of the card the code of an image can take: no more than it is made of. */
#ifndef TESSERA_SRC_IMAGE_H
#define TESSERA_SRC_IMAGE_H

#include <stdint.h>

#define TS_IMAGE_UNKNOWN (UINT64_C(64) << 20) /* of one that does not say it: PTX, a format that is not known here */

uint64_t ts_image_bytes(const void *image);      /* of a cubin, a fat binary or its wrapper; one that the driver has taken */
uint64_t ts_image_file_bytes(const char *path); /* by its size */

#endif
