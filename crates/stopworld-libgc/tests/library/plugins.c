/* Data of loaded libraries are roots, also of those that are loaded after a collection has begun. argv[1]: a folder with copies of the
   plugin. One thread collects all the time, others load and unload libraries. */
#include "libgc.h"
#include <dlfcn.h>
#include <stdatomic.h>

static atomic_int over;
static const char *folder;

static void *collect(void *argument) {
    while (!atomic_load(&over)) {
        GC_gcollect();
        churn();
    }
    return argument;
}

static void *load(void *argument) {
    char path[4096];
    int number = (int)(intptr_t)argument;
    snprintf(path, sizeof path, "%s/plugin%d.so", folder, number);
    for (int round = 0; round < 40; round++) {
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library);
        void (*keep)(uintptr_t *) = (void (*)(uintptr_t *))dlsym(library, "keep");
        uintptr_t *(*get)(void) = (uintptr_t * (*)(void)) dlsym(library, "get");
        CHECK(get() == NULL);
        keep(list(number));
        for (int wait = 0; wait < 5; wait++) {
            churn();
            CHECK(is_whole_list(get(), number));
        }
        keep(NULL);
        CHECK(dlclose(library) == 0);
    }
    return argument;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    GC_init();
    pthread_t collector, loaders[3];
    CHECK(GC_pthread_create(&collector, NULL, collect, NULL) == 0);
    for (intptr_t number = 0; number < 3; number++)
        CHECK(GC_pthread_create(&loaders[number], NULL, load, (void *)number) == 0);
    for (int number = 0; number < 3; number++) CHECK(GC_pthread_join(loaders[number], NULL) == 0);
    atomic_store(&over, 1);
    CHECK(GC_pthread_join(collector, NULL) == 0);
    CHECK(GC_gc_no > 10);
    return 0;
}
