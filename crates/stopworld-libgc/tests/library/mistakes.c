/* What the library says of wrong calls: argv[1] names one. */
#include "libgc.h"

static void nothing(void *object, void *data) {
    (void)object, (void)data;
}

/* A mark procedure must not change the tables of the collector. */
static void *registers(uintptr_t *object, void *top, void *limit, uintptr_t environment) {
    (void)limit, (void)environment;
    GC_register_finalizer_no_order(object, nothing, NULL, NULL, NULL);
    return top;
}

/* Only the finalizer keeps objects whose mark procedure is then called, while the collector goes through the table of finalizers. */
static __attribute__((noinline)) void make_finalizable(void) {
    unsigned kind = GC_new_kind(GC_new_free_list(), (uintptr_t)GC_new_proc(registers) << 2 | 2, 0, 1);
    for (int each = 0; each < 100; each++)
        GC_register_finalizer_no_order(GC_generic_malloc(64, kind), nothing, NULL, NULL, NULL);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    char *object = GC_malloc(100);
    int local;
    if (strcmp(arguments[1], "unknown") == 0) GC_free(&local);
    else if (strcmp(arguments[1], "inside") == 0) GC_free(object + 16);
    else if (strcmp(arguments[1], "twice") == 0) GC_free(object), GC_free(object);
    else if (strcmp(arguments[1], "missing") == 0) GC_stop_world_external();
    else if (strcmp(arguments[1], "in a collection") == 0) make_finalizable(), churn(), GC_gcollect();
    puts("went on");
    return 0;
}
