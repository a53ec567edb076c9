/* What the container exported to other processes, by the prints of its names in the usage file: so an importer
 * knows what is charged already. */
#ifndef TESSERA_SRC_EXPORTS_H
#define TESSERA_SRC_EXPORTS_H

#include <stddef.h>
#include <stdint.h>

uint64_t ts_export_name(const void *bytes, size_t size); /* of a handle, as the driver made it */
void ts_export_remember(uint64_t name);
void ts_export_forget(uint64_t name);
int ts_export_is_ours(uint64_t name); /* a process of this container exported it */

#endif
