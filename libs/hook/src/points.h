/* Places where a test may kill this process, and wrappers that it may leave out. Nothing in a release build. */
#ifndef TESSERA_SRC_POINTS_H
#define TESSERA_SRC_POINTS_H

#ifdef TESSERA_POINTS
void ts_point(const char *name);
int ts_point_bypassed(const char *symbol); /* is the driver's own function to be handed out? */
#else
#define ts_point(name) ((void)0)
#define ts_point_bypassed(symbol) 0
#endif

#endif
