/* A host in C: it loads the collector, builds lists on two threads, collects, and prints the events that it receives.
 *
 *     make run        in this folder, or:  ./host PATH/libstopworld_host.so
 *
 * What to look at: the events of each phase. The first phase reports collections (keyword GC). The second reports only roots (GC_HANDLE),
 * although it has a collection. The last reports names (the MPS category User). Each line is decoded from the payload's bytes, with the
 * field descriptions of the collector.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stopworld.h"

#define THREADS 2
#define NODES 1000

static const stopworld_collector *gc;
static stopworld_world *world;
static const stopworld_type *node_type;
static pthread_barrier_t built, collected;

typedef struct node {
    struct node *next;
    uint64_t value;
} node;

static void must(stopworld_code code, const char *what) {
    if (code != STOPWORLD_OK) {
        fprintf(stderr, "%s: code %d: %s\n", what, code, gc ? gc->last_error() : "");
        exit(1);
    }
}

/* Called on a thread of the collector. Printing allocates and takes locks, which is allowed here. */
static void fire_event(void *context, uint32_t event_id, const void *payload, size_t bytes, const stopworld_stamp *stamp) {
    stopworld_event event = {.header = STOPWORLD_HEADER(stopworld_event)};
    must(gc->event_describe(event_id, &event), "event_describe");
    char line[512];
    int at = snprintf(line, sizeof line, "event %s", event.name);
    for (uint32_t i = 0; i < event.field_count; i++) {
        const stopworld_field *field = &event.fields[i];
        size_t size = field->kind == STOPWORLD_U32 ? 4 : 8;
        if (field->since > stamp->version || field->offset + size > bytes)
            continue; /* an older payload lacks this field */
        uint64_t number = 0;
        memcpy(&number, (const char *)payload + field->offset, size);
        if (strcmp(field->unit, "label") == 0) {
            char text[64] = "";
            gc->telemetry_text(number, text, sizeof text, NULL);
            at += snprintf(line + at, sizeof line - at, " %s=\"%s\"", field->name, text);
        } else {
            at += snprintf(line + at, sizeof line - at, " %s=%" PRIu64, field->name, number);
        }
    }
    fprintf(context, "%s at=%" PRIu64 " tid=%" PRIu32 "\n", line, stamp->ns, stamp->tid);
}

static void events_lost(void *context, uint64_t count) {
    fprintf(context, "lost %" PRIu64 " events\n", count);
}

static void wait_at(void *barrier) {
    pthread_barrier_wait(barrier);
}

/* A local variable references the list: the collector finds it on this stack. */
static void *build(void *name) {
    must(gc->thread_attach(world, name), "thread_attach");
    node *list = NULL;
    for (uint64_t value = 1; value <= NODES; value++) {
        void *object, *garbage;
        must(gc->allocate(node_type, &object), "allocate");
        must(gc->allocate_bytes(100, &garbage), "allocate_bytes");
        node *new = object;
        new->value = value;
        new->next = list;
        list = new;
    }
    /* Wait for the other threads in a blocking region; otherwise no collection could begin meanwhile. */
    must(gc->blocking(wait_at, &built), "blocking");
    must(gc->blocking(wait_at, &collected), "blocking");
    uint64_t sum = 0, length = 0;
    for (node *here = list; here; here = here->next, length++)
        sum += here->value;
    printf("%s: %" PRIu64 " nodes, sum %" PRIu64 "\n", (const char *)name, length, sum);
    must(gc->thread_detach(), "thread_detach");
    return NULL;
}

static void collect(const char *what) {
    stopworld_collection report = {.header = STOPWORLD_HEADER(stopworld_collection)};
    must(gc->collect(world, &report), "collect");
    printf("collected %s: number %" PRIu32 ", live %" PRIu64 " objects in %" PRIu64 " bytes\n", what, report.number,
           report.live_objects, report.live_bytes);
}

/* Flushes the events, so that all earlier events are printed before the next phase. */
static void phase(const char *name) {
    must(gc->telemetry_flush(world, 10000), "telemetry_flush");
    printf("phase %s\n", name);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "libstopworld_host.so";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    stopworld_initialize_function initialize = (stopworld_initialize_function)dlsym(library, "stopworld_initialize");
    stopworld_last_error_function last_error = (stopworld_last_error_function)dlsym(library, "stopworld_last_error");
    if (!initialize || !last_error) {
        fprintf(stderr, "%s is not the collector\n", path);
        return 1;
    }
    stopworld_host host = {
        .header = STOPWORLD_HEADER(stopworld_host),
        .context = stdout,
        .fire_event = fire_event,
        .events_lost = events_lost,
    };
    if (initialize(&host, &gc) != STOPWORLD_OK) {
        fprintf(stderr, "%s\n", last_error());
        return 1;
    }
    /* The library stays loaded. */
    dlclose(library);

    stopworld_options options = {.header = STOPWORLD_HEADER(stopworld_options), .heap_limit = 64 << 20, .paranoid = 1};
    must(gc->world_create(&options, &world), "world_create");
    uint64_t references = 1; /* the first word: next */
    stopworld_type_description description = {
        .header = STOPWORLD_HEADER(stopworld_type_description),
        .name = "node",
        .bytes = sizeof(node),
        .references = &references,
        .reference_words = 1,
    };
    must(gc->type_describe(&description, &node_type), "type_describe");

    phase("collections");
    must(gc->set_event_level_state(world, STOPWORLD_PROVIDER_DEFAULT, STOPWORLD_LEVEL_INFORMATIONAL, 1), "level");
    must(gc->set_event_keyword_state(world, STOPWORLD_PROVIDER_DEFAULT, STOPWORLD_KEYWORD_GC, 1), "keyword");
    pthread_barrier_init(&built, NULL, THREADS + 1);
    pthread_barrier_init(&collected, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    char *names[THREADS] = {"builder-0", "builder-1"};
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, build, names[i]);
    pthread_barrier_wait(&built);
    collect("with both lists");
    collect("again");
    pthread_barrier_wait(&collected);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    collect("without them");

    /* Change the selection while the program runs. */
    must(gc->set_event_keyword_state(world, STOPWORLD_PROVIDER_DEFAULT, STOPWORLD_KEYWORD_GC, 0), "keyword");
    phase("roots");
    must(gc->set_event_keyword_state(world, STOPWORLD_PROVIDER_DEFAULT, STOPWORLD_KEYWORD_GC_HANDLE, 1), "keyword");
    must(gc->thread_attach(world, "main"), "thread_attach");
    void *object;
    stopworld_root *root;
    must(gc->allocate(node_type, &object), "allocate");
    must(gc->root_create(object, &root), "root_create");
    collect("with a root");
    must(gc->root_get(root, &object), "root_get");
    must(gc->root_drop(root), "root_drop");

    must(gc->set_event_level_state(world, STOPWORLD_PROVIDER_DEFAULT, STOPWORLD_LEVEL_INFORMATIONAL, 0), "level");
    phase("names");
    uint64_t old, label;
    must(gc->telemetry_control(world, STOPWORLD_USER, STOPWORLD_USER, &old), "telemetry_control");
    must(gc->telemetry_intern(world, "a node of main's", &label), "telemetry_intern");
    must(gc->telemetry_label(world, object, label), "telemetry_label");
    must(gc->telemetry_control(world, STOPWORLD_USER, 0, &old), "telemetry_control");
    collect("at the end");
    must(gc->thread_detach(), "thread_detach");
    phase("end");

    stopworld_statistics statistics = {.header = STOPWORLD_HEADER(stopworld_statistics)};
    must(gc->statistics(world, &statistics), "statistics");
    printf("collections %" PRIu32 ", threads %" PRIu32 ", events %" PRIu64 ", lost %" PRIu64 "\n", statistics.collections,
           statistics.threads, statistics.events_delivered, statistics.events_lost);
    must(gc->world_close(world, 10000), "world_close");
    printf("closed\n");
    return 0;
}
