/* Misuse of the interface, and the error code for each case. Prints one line per case: "ok" or "WRONG", the case, code and error text;
 * the test checks the lines. The argument is the path of the library. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stopworld.h"

static const stopworld_collector *gc;
static stopworld_last_error_function last_error;
static stopworld_initialize_function initialize;

static void fire_event(void *context, uint32_t id, const void *payload, size_t bytes, const stopworld_stamp *stamp) {
    (void)context, (void)id, (void)payload, (void)bytes, (void)stamp;
}

static void is(const char *what, stopworld_code code, stopworld_code expected) {
    printf("%s %s: %d %s\n", code == expected ? "ok" : "WRONG", what, code, code ? last_error() : "");
}

static void *unattached(void *world) {
    stopworld_type_description description = {.header = STOPWORLD_HEADER(stopworld_type_description), .name = "leaf", .bytes = 8};
    const stopworld_type *leaf;
    void *object = NULL;
    stopworld_root *root;
    is("describe on any thread", gc->type_describe(&description, &leaf), STOPWORLD_OK);
    is("allocate unattached", gc->allocate(leaf, &object), STOPWORLD_E_NOT_ATTACHED);
    is("allocate_array unattached", gc->allocate_array(leaf, 3, &object), STOPWORLD_E_NOT_ATTACHED);
    is("allocate_bytes unattached", gc->allocate_bytes(8, &object), STOPWORLD_E_NOT_ATTACHED);
    is("root unattached", gc->root_create(&object, &root), STOPWORLD_E_NOT_ATTACHED);
    is("safepoint unattached", gc->safepoint(), STOPWORLD_E_NOT_ATTACHED);
    is("detach unattached", gc->thread_detach(), STOPWORLD_E_NOT_ATTACHED);
    is("collect unattached", gc->collect(world, NULL), STOPWORLD_OK);
    is("results are not written on failure", object == NULL ? 0 : 1, 0);
    return NULL;
}

static stopworld_world *its_world;

static void region(void *argument) {
    void *object;
    is("allocate in a region", gc->allocate_bytes(8, &object), STOPWORLD_E_BLOCKING);
    is("collect in a region", gc->collect(its_world, NULL), STOPWORLD_E_BLOCKING);
    is("detach in a region", gc->thread_detach(), STOPWORLD_E_BLOCKING);
    is("region in a region", argument ? gc->blocking(region, NULL) : 0, STOPWORLD_OK);
}

static void calls(void) {
    stopworld_world *world = NULL, *no_world = (stopworld_world *)&world;
    stopworld_options options = {.header = STOPWORLD_HEADER(stopworld_options), .heap_limit = 4096};
    is("null output pointer for a world", gc->world_create(NULL, NULL), STOPWORLD_E_NULL);
    is("heap limit too small", gc->world_create(&options, &world), STOPWORLD_E_ARGUMENT);
    options.heap_limit = 1 << 20;
    is("world", gc->world_create(&options, &world), STOPWORLD_OK);
    its_world = world;
    is("attach to null", gc->thread_attach(NULL, "x"), STOPWORLD_E_NULL);
    is("attach to garbage", gc->thread_attach(no_world, "x"), STOPWORLD_E_ARGUMENT);
    is("a name that is not UTF-8", gc->thread_attach(world, "\xff"), STOPWORLD_E_ARGUMENT);
    pthread_t thread;
    pthread_create(&thread, NULL, unattached, world);
    pthread_join(thread, NULL);
    is("attach", gc->thread_attach(world, NULL), STOPWORLD_OK);
    is("attach again", gc->thread_attach(world, NULL), STOPWORLD_E_ATTACHED);
    is("close attached", gc->world_close(world, 1000), STOPWORLD_E_ATTACHED);

    void *object;
    const stopworld_type *type;
    uint64_t references[5] = {2, 0, 0, 0, 1};
    stopworld_type_description description = {
        .header = STOPWORLD_HEADER(stopworld_type_description), .name = "t", .bytes = 8, .references = references, .reference_words = 1};
    is("reference past the end of the object", gc->type_describe(&description, &type), STOPWORLD_E_ARGUMENT);
    description.bytes = 4096, description.reference_words = 5;
    is("reference in a word past the largest bitmap", gc->type_describe(&description, &type), STOPWORLD_E_ARGUMENT);
    description.name = NULL;
    is("type without a name", gc->type_describe(&description, &type), STOPWORLD_E_NULL);
    is("null description", gc->type_describe(NULL, &type), STOPWORLD_E_NULL);
    is("null type", gc->allocate(NULL, &object), STOPWORLD_E_NULL);
    is("null output pointer for an object", gc->allocate_bytes(8, NULL), STOPWORLD_E_NULL);
    is("allocation larger than the heap limit", gc->allocate_bytes(64 << 20, &object), STOPWORLD_E_MEMORY);
    is("allocation of SIZE_MAX bytes", gc->allocate_bytes(SIZE_MAX, &object), STOPWORLD_E_MEMORY);
    is("allocation of 0 bytes", gc->allocate_bytes(0, &object), STOPWORLD_OK);
    is("null root object", gc->root_create(NULL, (stopworld_root **)&object), STOPWORLD_E_NULL);
    is("null root", gc->root_get(NULL, &object), STOPWORLD_E_NULL);
    is("drop null root", gc->root_drop(NULL), STOPWORLD_E_NULL);
    is("drop null range", gc->range_drop(NULL), STOPWORLD_E_NULL);
    stopworld_range *range;
    is("range", gc->range_register(world, references, sizeof references, &range), STOPWORLD_OK);
    is("range dropped", gc->range_drop(range), STOPWORLD_OK);
    is("range past the end of the address space", gc->range_register(world, references, SIZE_MAX, &range), STOPWORLD_E_ARGUMENT);
    is("null region", gc->blocking(NULL, NULL), STOPWORLD_E_NULL);
    is("region", gc->blocking(region, &world), STOPWORLD_OK);
    is("after the region", gc->allocate_bytes(8, &object), STOPWORLD_OK);

    is("unknown provider", gc->set_event_keyword_state(world, 7, 1, 1), STOPWORLD_E_ARGUMENT);
    is("unknown level", gc->set_event_level_state(world, 0, 6, 1), STOPWORLD_E_ARGUMENT);
    is("level 0 alone", gc->set_event_level_state(world, 0, 0, 1), STOPWORLD_E_ARGUMENT);
    is("keywords up to no level", gc->set_events(world, 0, 1, 0), STOPWORLD_OK);
    is("telemetry_control without the old filter", gc->telemetry_control(world, 0, 0, NULL), STOPWORLD_OK);
    is("telemetry_control of a null world", gc->telemetry_control(NULL, 0, 0, NULL), STOPWORLD_E_NULL);
    uint64_t label;
    is("intern null", gc->telemetry_intern(world, NULL, &label), STOPWORLD_E_NULL);
    is("label 0", gc->telemetry_label(world, &label, 0), STOPWORLD_E_ARGUMENT);
    is("label for a null address", (gc->telemetry_intern(world, "x", &label), gc->telemetry_label(world, NULL, label)), STOPWORLD_E_ARGUMENT);
    char text[4];
    size_t length = 0;
    gc->telemetry_intern(world, "longer", &label);
    is("text of a label", gc->telemetry_text(label, text, sizeof text, &length), STOPWORLD_OK);
    is("the text is truncated", strcmp(text, "lon") == 0 && length == 6 ? 0 : 1, 0);
    is("text into a null buffer", gc->telemetry_text(label, NULL, 4, NULL), STOPWORLD_E_NULL);
    is("length of the text only", gc->telemetry_text(label, NULL, 0, &length), STOPWORLD_OK);
    uint32_t id;
    is("unknown event name", gc->event_by_name("GCStart_V9", &id), STOPWORLD_E_ARGUMENT);
    is("event", gc->event_by_name("GcStart", &id), STOPWORLD_OK);
    stopworld_event event = {.header = STOPWORLD_HEADER(stopworld_event)};
    is("unknown event number", gc->event_describe(100000, &event), STOPWORLD_E_ARGUMENT);
    is("null output pointer for an event", gc->event_describe(id, NULL), STOPWORLD_E_NULL);
    event.header.size = 8;
    is("event structure too small", gc->event_describe(id, &event), STOPWORLD_E_VERSION);
    struct { stopworld_statistics now; uint64_t later; } newer = {{.header = {sizeof newer, 1, 9}}, 77};
    is("statistics of a newer host", gc->statistics(world, &newer.now), STOPWORLD_OK);
    is("members unknown to the collector are unchanged", newer.later == 77 && newer.now.header.minor == 9 ? 0 : 1, 0);
    is("detach", gc->thread_detach(), STOPWORLD_OK);
    is("close", gc->world_close(world, 10000), STOPWORLD_OK);
    is("close again", gc->world_close(world, 10000), STOPWORLD_E_ARGUMENT);
    is("collect a closed world", gc->collect(world, NULL), STOPWORLD_E_ARGUMENT);
    is("flush a closed world", gc->telemetry_flush(world, 1), STOPWORLD_E_ARGUMENT);
    stopworld_world *worlds[9];
    for (int i = 0; i < 8; i++)
        is("one of 8 worlds", gc->world_create(&options, &worlds[i]), STOPWORLD_OK);
    is("too many worlds", gc->world_create(&options, &worlds[8]), STOPWORLD_E_EVENTS);
    for (int i = 0; i < 8; i++)
            is("close one of 8", gc->world_close(worlds[i], 10000), STOPWORLD_OK);
        is("a new world after closing", gc->world_create(&options, &world), STOPWORLD_OK);
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    initialize = (stopworld_initialize_function)dlsym(library, "stopworld_initialize");
    last_error = (stopworld_last_error_function)dlsym(library, "stopworld_last_error");
    struct { stopworld_host now; void (*later)(void); } host = {
        {STOPWORLD_HEADER(stopworld_host), NULL, fire_event, NULL}, NULL};
    stopworld_header right = host.now.header;
    is("null host", initialize(NULL, &gc), STOPWORLD_E_NULL);
    is("null collector", initialize(&host.now, NULL), STOPWORLD_E_NULL);
    host.now.header.major = 0;
    is("a host with an older major version", initialize(&host.now, &gc), STOPWORLD_E_VERSION);
    host.now.header.major = 2;
    is("a host with a newer major version", initialize(&host.now, &gc), STOPWORLD_E_VERSION);
    host.now.header = right, host.now.header.size = 16;
    is("a host table that is too small", initialize(&host.now, &gc), STOPWORLD_E_VERSION);
    host.now.header = right, host.now.fire_event = NULL;
    is("a host without fire_event", initialize(&host.now, &gc), STOPWORLD_E_NULL);
    is("no collector table so far", gc == NULL ? 0 : 1, 0);
    host.now.fire_event = fire_event;
    host.now.header.minor = 9, host.now.header.size = sizeof host;
    is("a host with a newer minor version", initialize(&host.now, &gc), STOPWORLD_OK);
    is("its collector", gc->header.major == 1 && STOPWORLD_HAS(gc, event_describe) ? 0 : 1, 0);
    const stopworld_collector *again = NULL;
    is("the same host", initialize(&host.now, &again), STOPWORLD_OK);
    is("the same collector", again == gc ? 0 : 1, 0);
    host.now.context = &host;
    is("another host", initialize(&host.now, &again), STOPWORLD_E_INITIALIZED);
    calls();
    printf("done\n");
    return 0;
}
