/* Allocation in a constructor, before main and GC_init; variables of the program are roots, initialised ones and others. */
#include "libgc.h"

static uintptr_t *zeroed;
static uintptr_t *initialised[2] = {(uintptr_t *)1, (uintptr_t *)2};

__attribute__((constructor)) static void before(void) {
    zeroed = list(1);
    initialised[1] = list(2);
}

int main(void) {
    GC_init();
    for (int round = 0; round < 5; round++) {
        GC_gcollect();
        churn();
    }
    CHECK(GC_gc_no >= 5);
    CHECK(is_whole_list(zeroed, 1) && is_whole_list(initialised[1], 2));
    CHECK(GC_base(&zeroed) == NULL);
    GC_printf("%d %s %ld %c %.2f %d %d %d %d %g\n", 1, "two", 3L, '4', 5.25, 6, 7, 8, 9, 10.5);
    GC_err_printf("%s\n", "ok");
    return 0;
}
