/* Forgets to free objects, in several modes: "many" of them; objects whose addresses others get after the search was off, because they are
   "freed" or "collected" meanwhile; and a "plain" program, which does not call GC_init and leaves the search to the environment. */
#include "libgc.h"

void GC_set_find_leak(int);
void *GC_debug_malloc(size_t, const char *, int);
void GC_debug_free(void *);

#define HIDE(pointer) (~(uintptr_t)(pointer))

/* In frames of their own, so that no address is left in the caller's. */
static __attribute__((noinline)) uintptr_t allocate(int count) {
    uintptr_t last = 0;
    for (int i = 0; i < count; i++) last = HIDE(GC_debug_malloc(100, "some.c", 1));
    return last;
}

static __attribute__((noinline)) void give_free(uintptr_t hidden) {
    GC_debug_free((void *)HIDE(hidden));
}

/* Allocates until an object has this address. */
static __attribute__((noinline)) void reuse(uintptr_t hidden) {
    for (int i = 0; i < 100000; i++)
        if (HIDE(GC_malloc(100)) == hidden) return;
    CHECK(!"the address was used again");
}

static __attribute__((noinline)) void lose(void) {
    CHECK(GC_malloc(100) != NULL);
}

/* Overwrites what calls have left on the stack. */
static __attribute__((noinline)) void clear(void) {
    volatile char bytes[4096];
    memset((char *)bytes, 0, sizeof bytes);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *mode = arguments[1];
    if (!strcmp(mode, "plain")) {
        lose();
        clear();
        return 0;
    }
    GC_set_find_leak(1);
    if (!strcmp(mode, "many")) {
        allocate(1500);
    } else {
        uintptr_t hidden = allocate(1);
        clear();
        GC_set_find_leak(0);
        if (!strcmp(mode, "freed")) give_free(hidden);
        else GC_gcollect();
        GC_set_find_leak(1);
        reuse(hidden);
    }
    clear();
    GC_gcollect();
    return 0;
}
