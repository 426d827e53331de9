/* Forgets to free some of its objects, and searches for them. "exit" leaves the last search to the end of the process. */
#include "libgc.h"

void GC_set_find_leak(int);
void *GC_debug_malloc(size_t, const char *, int);
void *GC_debug_malloc_atomic(size_t, const char *, int);
void *GC_debug_realloc(void *, size_t, const char *, int);
void GC_debug_free(void *);

#define OBJECTS 5

static void *kept[OBJECTS];

/* In a frame of its own, so that no address is left in the caller's. */
static __attribute__((noinline)) void allocate(void) {
    for (int i = 0; i < OBJECTS; i++) {
        kept[i] = GC_debug_malloc(100 + i, "some.c", 10 + i);
    }
    GC_debug_free(kept[0]);
    kept[1] = GC_debug_realloc(kept[1], 5000, "other.c", 20);
    kept[2] = GC_debug_malloc_atomic(7, "some.c", 30);
    kept[3] = GC_malloc(1000);
    /* Leaks: what kept[2] and kept[3] referred to. */
}

/* Overwrites what calls have left on the stack. */
static __attribute__((noinline)) void clear(void) {
    volatile char bytes[4096];
    memset((char *)bytes, 0, sizeof bytes);
}

int main(int count, char **arguments) {
    GC_set_find_leak(1);
    GC_init();
    allocate();
    clear();
    GC_gcollect();
    fprintf(stderr, "first\n");
    GC_gcollect();
    fprintf(stderr, "second\n");
    memset(kept, 0, sizeof kept);
    clear();
    if (count == 1 || strcmp(arguments[1], "exit")) {
        GC_gcollect();
        GC_gcollect();
    }
    fprintf(stderr, "third\n");
    return 0;
}
