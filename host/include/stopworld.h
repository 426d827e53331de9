/* The C interface of the stopworld collector, for hosts that load it at run time: version 1.0.
 *
 * The host looks up one function, stopworld_initialize (and stopworld_last_error, in case it fails). The host passes it a table of
 * functions that the collector calls, and receives a table of functions that the host may call:
 *
 *     void *library = dlopen("libstopworld_host.so", RTLD_NOW | RTLD_LOCAL);
 *     stopworld_initialize_function initialize = (stopworld_initialize_function)dlsym(library, "stopworld_initialize");
 *     stopworld_host host = { .header = STOPWORLD_HEADER(stopworld_host), .context = …, .fire_event = … };
 *     const stopworld_collector *gc;
 *     if (initialize(&host, &gc) != STOPWORLD_OK) …
 *
 * The library stays loaded, because it has threads and installs a signal handler. It is linked with DF_1_NODELETE, so dlclose does
 * not unload it.
 *
 * Codes. Every function except last_error returns a code. Results are written through pointers, and only if the code is STOPWORLD_OK. A
 * null pointer gives STOPWORLD_E_NULL unless the comment allows it. No call unwinds: a failure inside the collector gives
 * STOPWORLD_E_PANIC. The host's callbacks must return normally: an exception or a longjmp out of a callback is undefined behaviour and
 * may end the process.
 *
 * Versions. Every table and every structure that may grow begins with a header. Its reader uses only the first `size` bytes. Versions
 * with the same major number are compatible: new members are added at the end, with a new minor number, and an older reader ignores
 * them. STOPWORLD_HAS checks whether a structure has a member.
 *
 * References. The collector finds references on the stacks and in the registers of attached threads, in the words of objects that the
 * object's type declares, in roots, and in registered ranges; nowhere else. Objects do not move. If a word of an object changes while
 * another thread reads it, both must access it atomically, as a whole word.
 */
#ifndef STOPWORLD_H
#define STOPWORLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOPWORLD_MAJOR 1
#define STOPWORLD_MINOR 0

typedef struct stopworld_header {
    uint32_t size; /* of the whole structure, header included, in bytes */
    uint16_t major;
    uint16_t minor;
} stopworld_header;

#define STOPWORLD_HEADER(type) { (uint32_t)sizeof(type), STOPWORLD_MAJOR, STOPWORLD_MINOR }

/* Whether a structure that the other side filled in has this member. */
#define STOPWORLD_HAS(structure, member) \
    ((const char *)(&(structure)->member + 1) - (const char *)(structure) <= (ptrdiff_t)(structure)->header.size)

typedef int32_t stopworld_code;

enum {
    STOPWORLD_OK = 0,
    STOPWORLD_E_NULL = 1,         /* a required pointer is null */
    STOPWORLD_E_VERSION = 2,      /* the header of a structure has an incompatible version or too small a size */
    STOPWORLD_E_INITIALIZED = 3,  /* another host has already initialized the collector in this process */
    STOPWORLD_E_ARGUMENT = 4,     /* an invalid handle, level, text, … */
    STOPWORLD_E_NOT_ATTACHED = 5, /* the calling thread is not attached, or is attached to another world */
    STOPWORLD_E_ATTACHED = 6,     /* the calling thread is attached to a world */
    STOPWORLD_E_BLOCKING = 7,     /* the calling thread is in a blocking region */
    STOPWORLD_E_MEMORY = 8,       /* the heap limit is reached, and a collection did not free enough */
    STOPWORLD_E_COLLECT = 9,      /* the world could not be stopped; its threads continue to run */
    STOPWORLD_E_EVENTS = 10,      /* events can't be recorded, or not as requested */
    STOPWORLD_E_TIMEOUT = 11,     /* the operation did not finish in time */
    STOPWORLD_E_SYSTEM = 12,      /* the operating system refused */
    STOPWORLD_E_PANIC = 13        /* a failure inside the collector */
};

/* ---- The host's table ------------------------------------------------------------------------------------------------------- */

typedef struct stopworld_stamp {
    uint64_t ns;           /* timestamp, CLOCK_MONOTONIC */
    uint32_t tid;          /* the thread's kernel thread id */
    uint32_t thread_index; /* the thread's index, which is never reused in this process */
    uint16_t world;        /* index of the world among those that record at present */
    uint8_t version;       /* of the payload */
    uint8_t reserved[5];
} stopworld_stamp;

typedef struct stopworld_host {
    stopworld_header header;
    void *context; /* passed to each function below */

    /* Receives one event. A single thread makes the calls, one at a time, in order of time. The callback may allocate, lock, wait, and call
     * the collector; but it must not wait for a flush, because the flush waits for the callback to return. The payload holds the event's
     * fields in order, little-endian, without padding (see event_describe). It is valid until the callback returns. */
    void (*fire_event)(void *context, uint32_t event_id, const void *payload, size_t bytes, const stopworld_stamp *stamp);

    /* `count` events are missing at this point, because the host took none for a second while its queue was full. May be null. */
    void (*events_lost)(void *context, uint64_t count);
} stopworld_host;

/* ---- The collector's table -------------------------------------------------------------------------------------------------- */

typedef struct stopworld_world stopworld_world;
typedef struct stopworld_type stopworld_type;
typedef struct stopworld_root stopworld_root;
typedef struct stopworld_range stopworld_range;

typedef struct stopworld_options {
    stopworld_header header;
    uint64_t heap_limit;   /* bytes; 0: half of the machine's memory */
    uint64_t initial_heap; /* minimum number of bytes allocated between two collections; 0: the default */
    uint32_t markers;      /* number of marking threads; 0: the default */
    uint32_t safepoints;   /* 0: threads are stopped by signals; 1: at safepoints, in allocations and in blocking regions */
    uint32_t paranoid;     /* 1: the heap is verified after each collection */
    uint32_t reserved;
} stopworld_options;

typedef struct stopworld_type_description {
    stopworld_header header;
    const char *name;
    size_t bytes;
    const uint64_t *references; /* bitmap, lowest bit first: bit n is set if the n-th 8-byte word may hold a reference. Null: no word does */
    size_t reference_words;     /* number of uint64_t in the bitmap; set bits only in the first 4 */
} stopworld_type_description;

typedef struct stopworld_collection {
    stopworld_header header;
    uint32_t number; /* from 1 */
    uint32_t threads_stopped;
    uint64_t pause_ns;
    uint64_t live_objects;
    uint64_t live_bytes;
    uint64_t freed_bytes;
    uint64_t allocated_bytes; /* since the previous collection */
} stopworld_collection;

typedef struct stopworld_statistics {
    stopworld_header header;
    uint32_t collections;
    uint32_t threads;         /* currently attached */
    uint64_t allocated_bytes; /* up to the last collection */
    uint64_t live_bytes;      /* after the last collection */
    uint64_t committed_bytes;
    uint64_t events_delivered; /* to this world's host */
    uint64_t events_lost;
} stopworld_statistics;

enum { STOPWORLD_U32 = 0, STOPWORLD_U64 = 1, STOPWORLD_WORD = 2 };

#define STOPWORLD_MAX_FIELDS 6

typedef struct stopworld_field {
    const char *name;
    const char *unit; /* ordinal, count, bytes, ns, address, thread, label, code */
    uint32_t offset;  /* in the payload */
    uint32_t kind;    /* STOPWORLD_U32 … */
    uint32_t since;   /* the payload version that added this field */
    uint32_t reserved;
} stopworld_field;

typedef struct stopworld_event {
    stopworld_header header;
    const char *name;     /* the same in all versions of the library; event_id may differ between versions */
    const char *summary;  /* what happened, as a human-readable text */
    uint32_t event_id;
    uint32_t version;     /* of the payload */
    uint32_t net_id;      /* the event's id in the .NET manifest, 0 if it has none */
    uint32_t field_count;
    stopworld_field fields[STOPWORLD_MAX_FIELDS];
} stopworld_event;

enum { STOPWORLD_PROVIDER_DEFAULT = 0, STOPWORLD_PROVIDER_PRIVATE = 1 };

enum {
    STOPWORLD_LEVEL_FATAL = 1,
    STOPWORLD_LEVEL_ERROR = 2,
    STOPWORLD_LEVEL_WARNING = 3,
    STOPWORLD_LEVEL_INFORMATIONAL = 4,
    STOPWORLD_LEVEL_VERBOSE = 5
};

#define STOPWORLD_KEYWORD_GC UINT64_C(0x1)
#define STOPWORLD_KEYWORD_GC_HANDLE UINT64_C(0x2)
#define STOPWORLD_KEYWORD_TYPE UINT64_C(0x80000)
#define STOPWORLD_KEYWORD_GC_HEAP_DUMP UINT64_C(0x100000)

/* The MPS event categories: bits of the MPS filter. */
#define STOPWORLD_ARENA UINT64_C(0x01)
#define STOPWORLD_POOL UINT64_C(0x02)
#define STOPWORLD_TRACE UINT64_C(0x04)
#define STOPWORLD_SEG UINT64_C(0x08)
#define STOPWORLD_REF UINT64_C(0x10)
#define STOPWORLD_OBJECT UINT64_C(0x20)
#define STOPWORLD_USER UINT64_C(0x40)

typedef struct stopworld_collector {
    stopworld_header header;

    /* Returns the error text of the last call that failed on this thread; "" if no call failed. Valid until the next failure. */
    const char *(*last_error)(void);

    /* Creates a world: a heap and its threads. The host receives the world's events; initially none is enabled. `options` may be
     * null. At most 8 worlds can exist at a time. */
    stopworld_code (*world_create)(const stopworld_options *options, stopworld_world **world);
    /* Closes a world: refuses new threads, runs finalizers, and delivers the last events to the host, within `timeout_ms`. Must not be
     * called on an attached thread. The handle is invalid afterwards, even after a timeout. The memory is freed when the last thread
     * has detached and the last root is dropped. */
    stopworld_code (*world_close)(stopworld_world *world, uint64_t timeout_ms);

    /* Attaches the calling thread: it may allocate until it detaches or ends. `name` may be null. */
    stopworld_code (*thread_attach)(stopworld_world *world, const char *name);
    stopworld_code (*thread_detach)(void);

    /* Creates a type. Types are never freed. */
    stopworld_code (*type_describe)(const stopworld_type_description *description, const stopworld_type **type);

    /* Allocates a zeroed object, aligned to 8. May collect. Uses the calling thread's world, as do all functions below without a
     * `world` parameter. */
    stopworld_code (*allocate)(const stopworld_type *type, void **object);
    /* Allocates an array: one word that holds the length, then the elements. The size of an element type with references must be a
     * multiple of 8. */
    stopworld_code (*allocate_array)(const stopworld_type *element, size_t length, void **object);
    /* Allocates bytes without references, aligned to 16. */
    stopworld_code (*allocate_bytes)(size_t bytes, void **object);

    /* Creates a root, which keeps its object alive wherever the root itself is stored. It may be dropped on any thread. */
    stopworld_code (*root_create)(void *object, stopworld_root **root);
    stopworld_code (*root_get)(const stopworld_root *root, void **object);
    stopworld_code (*root_drop)(stopworld_root *root);
    /* Makes every word of a range of ordinary memory a root until the range is dropped. The memory must stay readable until then. */
    stopworld_code (*range_register)(stopworld_world *world, const void *start, size_t bytes, stopworld_range **range);
    stopworld_code (*range_drop)(stopworld_range *range);

    /* A safepoint: a place where the calling thread may be stopped cooperatively. */
    stopworld_code (*safepoint)(void);
    /* Calls `region` as a blocking region: for system calls, locks, long waits. `region` must not touch or allocate objects; in return, no
     * stop waits for it. This is one call rather than an enter/leave pair, because the caller's registers must be saved on its stack
     * during the region. A thread that is cancelled in `region` (pthread_cancel, deferred) or calls pthread_exit there leaves the region,
     * and detaches when it ends. The collector's other functions are not cancellation points. Nothing else may unwind out of `region`: a
     * C++ exception ends the process. */
    stopworld_code (*blocking)(void (*region)(void *argument), void *argument);

    /* Collects now, on any thread. `report` may be null; otherwise its header gives the size that may be written. */
    stopworld_code (*collect)(stopworld_world *world, stopworld_collection *report);
    stopworld_code (*statistics)(stopworld_world *world, stopworld_statistics *statistics);

    /* Selects events. An event is enabled if its level and one of its keywords are on, or if one of its categories is on. Events that
     * one of these functions disabled are not fired with a timestamp later than its return. Events fired earlier may still be
     * delivered; after a flush all of them have been. */
    stopworld_code (*set_event_keyword_state)(stopworld_world *world, uint32_t provider, uint64_t keywords, uint32_t enabled);
    stopworld_code (*set_event_level_state)(stopworld_world *world, uint32_t provider, uint32_t level, uint32_t enabled);
    /* Enables exactly these keywords, and all levels up to `level`; 0 enables no level. */
    stopworld_code (*set_events)(stopworld_world *world, uint32_t provider, uint64_t keywords, uint32_t level);
    /* Changes the MPS filter: clears the bits of `reset`, then inverts the bits of `flip`. Returns the old filter in `old`, which may be
     * null. */
    stopworld_code (*telemetry_control)(stopworld_world *world, uint64_t reset, uint64_t flip, uint64_t *old);
    /* Returns when the host and all other consumers have received every event fired before the call. */
    stopworld_code (*telemetry_flush)(stopworld_world *world, uint64_t timeout_ms);

    /* Names for addresses: telemetry_intern makes a label of a text, telemetry_label gives the label to an address. */
    stopworld_code (*telemetry_intern)(stopworld_world *world, const char *text, uint64_t *label);
    stopworld_code (*telemetry_label)(stopworld_world *world, const void *address, uint64_t label);
    /* Copies the text of a label, truncated to `capacity` bytes including the final 0. `length`, which may be null, receives the full
     * length of the text. */
    stopworld_code (*telemetry_text)(uint64_t label, char *buffer, size_t capacity, size_t *length);

    /* Events are numbered from 0. */
    stopworld_code (*event_count)(uint32_t *count);
    stopworld_code (*event_by_name)(const char *name, uint32_t *event_id);
    /* The header of `event` gives the size that may be written. */
    stopworld_code (*event_describe)(uint32_t event_id, stopworld_event *event);
} stopworld_collector;

/* Initializes the collector. The host's table is copied; its context and functions must stay valid until the process ends. A second call
 * with the same context and functions returns the same collector. */
stopworld_code stopworld_initialize(const stopworld_host *host, const stopworld_collector **collector);
typedef stopworld_code (*stopworld_initialize_function)(const stopworld_host *host, const stopworld_collector **collector);

/* The same as the collector's last_error, for a host that has no collector table yet. */
const char *stopworld_last_error(void);
typedef const char *(*stopworld_last_error_function)(void);

#ifdef __cplusplus
}
#endif

#endif
