/* What threads share without an order: a figure that is a moment old does no harm, a torn one would. */
#ifndef TESSERA_SRC_RELAXED_H
#define TESSERA_SRC_RELAXED_H

#define ts_get(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define ts_set(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

/* What every call reads lies together: a program that calls now and then finds none of it in a cache. */
#define TS_HOT __attribute__((section("ts_hot")))
#define TS_OFTEN __attribute__((hot)) /* and what it runs */

#endif
