/* Forgets to free objects, in several modes: "many" of them; objects whose addresses others get after the search was off, because they are
   "freed" or "collected" meanwhile; and a "plain" program, which does not call GC_init and leaves the search to the environment. */
#include "libgc.h"

void GC_set_find_leak(int);
void *GC_debug_malloc(size_t, const char *, int);
void GC_debug_free(void *);

#define HIDE(pointer) (~(uintptr_t)(pointer))

/* A word that a function has left somewhere may keep one object, but not each of these. */
#define NOTED 100

static uintptr_t noted[NOTED];

/* In frames of their own, so that no address is left in the caller's. */
static __attribute__((noinline)) void allocate(int count) {
    for (int i = 0; i < count; i++) noted[i % NOTED] = HIDE(GC_debug_malloc(100, "some.c", 1));
}

static __attribute__((noinline)) void give_free(void) {
    for (int i = 0; i < NOTED; i++) GC_debug_free((void *)HIDE(noted[i]));
}

/* Allocates until objects have half of the noted addresses. */
static __attribute__((noinline)) void reuse(void) {
    int again = 0;
    for (int i = 0; i < 100000; i++) {
        uintptr_t hidden = HIDE(GC_malloc(100));
        for (int j = 0; j < NOTED; j++) again += noted[j] == hidden;
        if (again >= NOTED / 2) return;
    }
    CHECK(!"the addresses were used again");
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
        allocate(NOTED);
        clear();
        GC_set_find_leak(0);
        if (!strcmp(mode, "freed")) give_free();
        else GC_gcollect();
        GC_set_find_leak(1);
        reuse();
    }
    clear();
    GC_gcollect();
    return 0;
}
