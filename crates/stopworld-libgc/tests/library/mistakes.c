/* What the library says of wrong calls: argv[1] names one. */
#include "libgc.h"

int main(int count, char **arguments) {
    CHECK(count == 2);
    char *object = GC_malloc(100);
    int local;
    if (strcmp(arguments[1], "unknown") == 0) GC_free(&local);
    else if (strcmp(arguments[1], "inside") == 0) GC_free(object + 16);
    else if (strcmp(arguments[1], "twice") == 0) GC_free(object), GC_free(object);
    else if (strcmp(arguments[1], "missing") == 0) GC_stop_world_external();
    puts("went on");
    return 0;
}
