/* The layouts as a table: struct.field, offset, size. For the test on the other side. */
#ifndef TESSERA_SRC_LAYOUT_H
#define TESSERA_SRC_LAYOUT_H
void ts_layout_print(void);
#endif
