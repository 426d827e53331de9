/* Host threads that are cancelled, or call pthread_exit, in a blocking region: each leaves the region and the world, and collections
 * still work. Prints one line for each case; the test compares the output. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "stopworld.h"

static const stopworld_collector *gc;
static stopworld_last_error_function last_error;
static stopworld_world *world;
static atomic_int ready, cleaned;

static void fire_event(void *context, uint32_t id, const void *payload, size_t bytes, const stopworld_stamp *stamp) {
    (void)context, (void)id, (void)payload, (void)bytes, (void)stamp;
}

static void check(const char *what, stopworld_code code) {
    if (code != STOPWORLD_OK) {
        printf("WRONG %s: %d %s\n", what, code, last_error());
        exit(1);
    }
}

static void clean(void *argument) {
    (void)argument;
    atomic_fetch_add(&cleaned, 1);
}

static void waits(void *argument) {
    (void)argument;
    pthread_cleanup_push(clean, NULL);
    atomic_store(&ready, 1);
    for (;;)
        pause();
    pthread_cleanup_pop(1);
}

static void ends(void *argument) {
    (void)argument;
    pthread_cleanup_push(clean, NULL);
    atomic_store(&ready, 1);
    pthread_exit(PTHREAD_CANCELED);
    pthread_cleanup_pop(1);
}

static void nested(void *argument) {
    check("region in a region", gc->blocking(waits, argument));
}

static void *attached(void *region) {
    void *object;
    check("attach", gc->thread_attach(world, "cancelled"));
    check("allocate", gc->allocate_bytes(100, &object));
    check("blocking", gc->blocking((void (*)(void *))region, NULL));
    return NULL;
}

/* Collects until it is cancelled, which can only happen between the collector's calls: inside them cancellation is disabled. */
static void *collecting(void *argument) {
    (void)argument;
    check("attach", gc->thread_attach(world, "cancelled"));
    pthread_cleanup_push(clean, NULL);
    for (;;) {
        check("collect", gc->collect(world, NULL));
        atomic_store(&ready, 1);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void try(const char *what, void *(*body)(void *), void *argument) {
    int cancelled = 0;
    atomic_store(&cleaned, 0);
    for (int round = 0; round < 50; round++) {
        pthread_t thread;
        void *value;
        atomic_store(&ready, 0);
        if (pthread_create(&thread, NULL, body, argument))
            exit(1);
        while (!atomic_load(&ready))
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        check("collect while it runs", gc->collect(world, NULL));
        pthread_cancel(thread);
        check("collect while it ends", gc->collect(world, NULL));
        if (pthread_join(thread, &value))
            exit(1);
        cancelled += value == PTHREAD_CANCELED;
        check("collect after its end", gc->collect(world, NULL));
    }
    stopworld_statistics statistics = {.header = STOPWORLD_HEADER(stopworld_statistics)};
    check("statistics", gc->statistics(world, &statistics));
    printf("%s: cancelled %d, cleaned %d, threads %u\n", what, cancelled, atomic_load(&cleaned), statistics.threads);
}

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!library)
        return 1;
    stopworld_initialize_function initialize = (stopworld_initialize_function)dlsym(library, "stopworld_initialize");
    last_error = (stopworld_last_error_function)dlsym(library, "stopworld_last_error");
    stopworld_host host = {.header = STOPWORLD_HEADER(stopworld_host), .fire_event = fire_event};
    check("initialize", initialize(&host, &gc));
    stopworld_options options = {.header = STOPWORLD_HEADER(stopworld_options), .heap_limit = 16 << 20};
    check("world", gc->world_create(&options, &world));
    try("cancelled in a region", attached, (void *)waits);
    try("cancelled in a region in a region", attached, (void *)nested);
    try("ends in a region", attached, (void *)ends);
    try("cancelled between collections", collecting, NULL);
    check("close", gc->world_close(world, 10000));
    printf("done\n");
    return 0;
}
