/* Threads constantly attach, allocate from the collector and from malloc, and end, while an unattached thread collects. All events are
 * recorded, and the host takes malloc's lock for each one. The library is loaded by dlopen, so its thread-local storage is
 * allocated on first use. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stopworld.h"

#define THREADS 3
#define LIVES 400

static const stopworld_collector *gc;
static stopworld_world *world;
static const stopworld_type *node_type;
static atomic_int bearing = THREADS;
static atomic_ulong got, lost;
static uint64_t last_ns;
static atomic_ulong backwards;

typedef struct node {
    struct node *next;
    uint64_t value;
} node;

static void must(stopworld_code code, const char *what) {
    if (code != STOPWORLD_OK) {
        fprintf(stderr, "%s: %d: %s\n", what, code, gc->last_error());
        abort();
    }
}

static void fire_event(void *context, uint32_t id, const void *payload, size_t bytes, const stopworld_stamp *stamp) {
    (void)context, (void)id;
    void *copy = malloc(bytes + 1);
    memcpy(copy, payload, bytes);
    free(copy);
    if (stamp->ns < last_ns)
        backwards++;
    last_ns = stamp->ns;
    got++;
}

static void events_lost(void *context, uint64_t count) {
    (void)context;
    lost += count;
}

/* A thread that allocates 100 objects. Every second such thread ends without detaching. */
static void *live(void *detaches) {
    must(gc->thread_attach(world, "short"), "attach");
    node *list = NULL;
    for (uint64_t value = 0; value < 100; value++) {
        void *object, *of_malloc = malloc(value * 16);
        must(gc->allocate(node_type, &object), "allocate");
        node *new = object;
        new->value = value;
        new->next = list;
        list = new;
        free(of_malloc);
    }
    for (uint64_t value = 100; list; list = list->next)
        if (list->value != --value)
            abort();
    if (detaches)
        must(gc->thread_detach(), "detach");
    return NULL;
}

static void *bear(void *unused) {
    (void)unused;
    for (uintptr_t round = 0; round < LIVES; round++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live, (void *)(round & 1)) == 0)
            pthread_join(thread, NULL);
    }
    bearing--;
    return NULL;
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    stopworld_initialize_function initialize = (stopworld_initialize_function)dlsym(library, "stopworld_initialize");
    stopworld_host host = {STOPWORLD_HEADER(stopworld_host), NULL, fire_event, events_lost};
    must(initialize(&host, &gc), "initialize");
    stopworld_options options = {.header = STOPWORLD_HEADER(stopworld_options), .heap_limit = 64 << 20, .markers = 2};
    must(gc->world_create(&options, &world), "world_create");
    uint64_t references = 1;
    stopworld_type_description description = {STOPWORLD_HEADER(stopworld_type_description), "node", sizeof(node), &references, 1};
    must(gc->type_describe(&description, &node_type), "type_describe");
    must(gc->telemetry_control(world, 0, UINT64_MAX, NULL), "telemetry_control");

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, bear, NULL);
    while (bearing > 0)
        must(gc->collect(world, NULL), "collect");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    must(gc->telemetry_flush(world, 30000), "flush");
    stopworld_statistics statistics = {.header = STOPWORLD_HEADER(stopworld_statistics)};
    must(gc->statistics(world, &statistics), "statistics");
    if (statistics.events_delivered != got || statistics.events_lost != lost || statistics.threads != 0)
        abort();
    must(gc->world_close(world, 30000), "world_close");
    printf("events %lu, lost %lu, backwards %lu\n", got, lost, backwards);
    return 0;
}
