/*
 * The peers use libgc's public interface only, so that any collector with the same interface can be swapped in
 * (LD_LIBRARY_PATH, or make PREFIX=...). With -DUSE_MALLOC the same programs use malloc and free instead, without libgc, so that any
 * allocator can be swapped in (LD_PRELOAD).
 */
#ifndef PEER_H
#define PEER_H

#include "common.h"

static uint64_t worst_pause_ns;

static inline double worst_pause_ms(void)
{
    return worst_pause_ns / 1e6;
}

#ifdef USE_MALLOC

#define ALLOCATE(size) malloc(size)
#define ALLOCATE_POINTERLESS(size) malloc(size)
#define GC_MALLOC(size) calloc(1, size)
#define GC_MALLOC_ATOMIC(size) calloc(1, size)
#define GC_reachable_here(object) ((void)(object))

static inline void init_program(void) {}

static inline unsigned long collections(void)
{
    return 0;
}

#else

#define GC_THREADS
#include <gc.h>

#define ALLOCATE(size) GC_MALLOC(size)
#define ALLOCATE_POINTERLESS(size) GC_MALLOC_ATOMIC(size)

static inline void GC_CALLBACK note_pause(GC_EventType event)
{
    static uint64_t stop_began;
    if (event == GC_EVENT_PRE_STOP_WORLD) {
        stop_began = now_ns();
    } else if (event == GC_EVENT_POST_START_WORLD) {
        uint64_t pause = now_ns() - stop_began;
        if (pause > worst_pause_ns)
            worst_pause_ns = pause;
    }
}

static inline void *GC_CALLBACK report_out_of_memory(size_t bytes)
{
    fprintf(stderr, "out of memory: no room for %zu bytes\n", bytes);
    exit(3);
}

/* Initializes the collector of a whole program. worst_pause_ms() then returns its longest pause. */
static inline void init_program(void)
{
    GC_INIT();
    GC_set_on_collection_event(note_pause);
    GC_set_oom_fn(report_out_of_memory);
}

static inline unsigned long collections(void)
{
    return GC_get_gc_no();
}

#endif

#endif
