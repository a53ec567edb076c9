/* Places where a test may kill this process. Nothing in a release build. */
#ifndef TESSERA_SRC_POINTS_H
#define TESSERA_SRC_POINTS_H

#ifdef TESSERA_POINTS
void ts_point(const char *name);
#else
#define ts_point(name) ((void)0)
#endif

#endif
