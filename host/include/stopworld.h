/* The stopworld collector, for a host that does not link against it: version 1.0 of the interface.
 *
 * The library has one function to look up, stopworld_initialize (and stopworld_last_error for when that fails). The host gives it a table of functions that the collector
 * calls, and gets a table of functions that it may call:
 *
 *     void *library = dlopen("libstopworld_host.so", RTLD_NOW | RTLD_LOCAL);
 *     stopworld_initialize_function initialize = (stopworld_initialize_function)dlsym(library, "stopworld_initialize");
 *     stopworld_host host = { .header = STOPWORLD_HEADER(stopworld_host), .context = …, .fire_event = … };
 *     const stopworld_collector *gc;
 *     if (initialize(&host, &gc) != STOPWORLD_OK) …
 *
 * The library stays loaded: it has threads, and a signal handler that the process keeps. It is marked so (DF_1_NODELETE), and dlclose
 * does not unload it.
 *
 * Codes. Every function but last_error returns a code; results go through pointers, which are written only with STOPWORLD_OK. A null
 * pointer where the text says nothing of it is STOPWORLD_E_NULL. Nothing unwinds: a failure inside is STOPWORLD_E_PANIC. A callback of
 * the host's must return; an exception or a longjmp out of it ends the process, or worse.
 *
 * Versions. Every table and every structure that may grow begins with a header. A reader believes no more than `size`
 * says. The same major version can be used together: new members come at the end, with a new minor version. What is newer than its
 * reader is not looked at; STOPWORLD_HAS asks whether a member is there.
 *
 * References. The collector finds them on the stacks and in the registers of attached threads, in the words of objects that
 * their types name, in roots, and in registered ranges; nowhere else. Objects do not move. A word in an object that
 * changes while others read it is read and written as a whole, as an atomic.
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
    uint32_t size; /* of the structure that begins with it, in bytes */
    uint16_t major;
    uint16_t minor;
} stopworld_header;

#define STOPWORLD_HEADER(type) { (uint32_t)sizeof(type), STOPWORLD_MAJOR, STOPWORLD_MINOR }

/* Whether a structure that somebody else made has this member. */
#define STOPWORLD_HAS(structure, member) \
    ((const char *)(&(structure)->member + 1) - (const char *)(structure) <= (ptrdiff_t)(structure)->header.size)

typedef int32_t stopworld_code;

enum {
    STOPWORLD_OK = 0,
    STOPWORLD_E_NULL = 1,         /* a pointer is null */
    STOPWORLD_E_VERSION = 2,      /* the two sides do not understand each other */
    STOPWORLD_E_INITIALIZED = 3,  /* by another host */
    STOPWORLD_E_ARGUMENT = 4,     /* not a handle, not a level, not a text, … */
    STOPWORLD_E_NOT_ATTACHED = 5, /* the calling thread is attached to no world, or to another one */
    STOPWORLD_E_ATTACHED = 6,     /* the calling thread is attached */
    STOPWORLD_E_BLOCKING = 7,     /* the calling thread is in its own blocking region */
    STOPWORLD_E_MEMORY = 8,       /* the heap limit is reached, and a collection made no room */
    STOPWORLD_E_COLLECT = 9,      /* the world could not be stopped; it runs on */
    STOPWORLD_E_EVENTS = 10,      /* events can't be recorded, or not as asked */
    STOPWORLD_E_TIMEOUT = 11,     /* it takes longer */
    STOPWORLD_E_SYSTEM = 12,      /* the system refused */
    STOPWORLD_E_PANIC = 13        /* a failure inside the collector */
};

/* ---- The host's table ------------------------------------------------------------------------------------------------------- */

typedef struct stopworld_stamp {
    uint64_t ns;           /* when, by CLOCK_MONOTONIC */
    uint32_t tid;          /* on which thread, by the kernel's number */
    uint32_t thread_index; /* … by a number that no two threads of the process have */
    uint16_t world;        /* in which world, among those that record at present */
    uint8_t version;       /* of the payload */
    uint8_t reserved[5];
} stopworld_stamp;

typedef struct stopworld_host {
    stopworld_header header;
    void *context; /* given to each function below */

    /* Something happened. One thread calls it, one call at a time, by time. It may allocate, lock, wait, and call the collector; but it
     * must not wait for a flush, which would wait for its return. The payload: the event's fields in order, little-endian, without padding
     * (event_describe); it is gone when the function returns. */
    void (*fire_event)(void *context, uint32_t event_id, const void *payload, size_t bytes, const stopworld_stamp *stamp);

    /* So many events are missing here, because the host took none for a second while its queue was full. May be null. */
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
    uint64_t initial_heap; /* bytes that may be allocated between two collections at least; 0: the default */
    uint32_t markers;      /* threads that mark; 0: the default */
    uint32_t safepoints;   /* 0: threads are stopped by signals; 1: at safepoints, in allocations and in blocking regions */
    uint32_t paranoid;     /* 1: the heap is verified after each collection */
    uint32_t reserved;
} stopworld_options;

typedef struct stopworld_type_description {
    stopworld_header header;
    const char *name;
    size_t bytes;
    const uint64_t *references; /* a bit for each word of 8 bytes, lowest first: it may hold a reference. Null: none does */
    size_t reference_words;     /* how many uint64_t: at most 4 with bits in them */
} stopworld_type_description;

typedef struct stopworld_collection {
    stopworld_header header;
    uint32_t number; /* from 1 */
    uint32_t threads_stopped;
    uint64_t pause_ns;
    uint64_t live_objects;
    uint64_t live_bytes;
    uint64_t freed_bytes;
    uint64_t allocated_bytes; /* since the one before */
} stopworld_collection;

typedef struct stopworld_statistics {
    stopworld_header header;
    uint32_t collections;
    uint32_t threads;         /* attached now */
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
    uint32_t since;   /* the version of the payload that brought it */
    uint32_t reserved;
} stopworld_field;

typedef struct stopworld_event {
    stopworld_header header;
    const char *name;     /* it stays what it is; event_id may be another one in another version of the library */
    const char *summary;  /* what happened, for people */
    uint32_t event_id;
    uint32_t version;     /* of the payload */
    uint32_t net_id;      /* its number in .NET's manifest, 0 if it has none */
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

/* Categories of the MPS, bits of its filter. */
#define STOPWORLD_ARENA UINT64_C(0x01)
#define STOPWORLD_POOL UINT64_C(0x02)
#define STOPWORLD_TRACE UINT64_C(0x04)
#define STOPWORLD_SEG UINT64_C(0x08)
#define STOPWORLD_REF UINT64_C(0x10)
#define STOPWORLD_OBJECT UINT64_C(0x20)
#define STOPWORLD_USER UINT64_C(0x40)

typedef struct stopworld_collector {
    stopworld_header header;

    /* What the last function of this thread that failed had to say; "" if none did. Valid until the next one fails. */
    const char *(*last_error)(void);

    /* A heap and its threads. Its events go to the host; at first none is enabled. `options` may be null. At most 8 at
     * a time. */
    stopworld_code (*world_create)(const stopworld_options *options, stopworld_world **world);
    /* No thread attaches any more, finalizers run, and the host gets the last events, for at most so long. Not on an attached thread. The
     * handle is no world any more, also when the time was too short; memory goes when the last thread detaches and the last root goes. */
    stopworld_code (*world_close)(stopworld_world *world, uint64_t timeout_ms);

    /* The calling thread may allocate, until it detaches or ends. `name` may be null. */
    stopworld_code (*thread_attach)(stopworld_world *world, const char *name);
    stopworld_code (*thread_detach)(void);

    /* A type stays for ever. */
    stopworld_code (*type_describe)(const stopworld_type_description *description, const stopworld_type **type);

    /* Zeroed, aligned to 8. May collect. In the calling thread's world, as all below that name none. */
    stopworld_code (*allocate)(const stopworld_type *type, void **object);
    /* A word that holds the length, then the elements. The type's size is a multiple of 8 unless it has no references. */
    stopworld_code (*allocate_array)(const stopworld_type *element, size_t length, void **object);
    /* Without references, aligned to 16. */
    stopworld_code (*allocate_bytes)(size_t bytes, void **object);

    /* A root keeps an object alive from anywhere. It may be dropped on any thread. */
    stopworld_code (*root_create)(void *object, stopworld_root **root);
    stopworld_code (*root_get)(const stopworld_root *root, void **object);
    stopworld_code (*root_drop)(stopworld_root *root);
    /* Every word of ordinary memory is a root, until the range is dropped. The memory must be readable until then. */
    stopworld_code (*range_register)(stopworld_world *world, const void *start, size_t bytes, stopworld_range **range);
    stopworld_code (*range_drop)(stopworld_range *range);

    /* Where a thread may be stopped cooperatively. */
    stopworld_code (*safepoint)(void);
    /* Calls `region`, which touches no object and allocates none, so that no stop waits for it: system calls, locks, long waits. It is a
     * call and no pair of calls, because the caller's registers must lie on its stack meanwhile.
     * A thread that is cancelled (pthread_cancel, of the deferred type) or that calls pthread_exit in `region` leaves the region, and
     * detaches when it ends. The collector's other calls are no cancellation points. Nothing else may unwind out of `region`: a C++
     * exception ends the process. */
    stopworld_code (*blocking)(void (*region)(void *argument), void *argument);

    /* Collects now, on any thread. `report` may be null; else its header says what it has room for. */
    stopworld_code (*collect)(stopworld_world *world, stopworld_collection *report);
    stopworld_code (*statistics)(stopworld_world *world, stopworld_statistics *statistics);

    /* What is enabled: an event is fired if its level and one of its keywords are both on, or one of its categories. When one of
     * these returns, nothing that it turned off is fired with a later time. What was fired before may still come; after a flush it has. */
    stopworld_code (*set_event_keyword_state)(stopworld_world *world, uint32_t provider, uint64_t keywords, uint32_t enabled);
    stopworld_code (*set_event_level_state)(stopworld_world *world, uint32_t provider, uint32_t level, uint32_t enabled);
    /* These keywords and no others, and every level up to this one; level 0 is none. */
    stopworld_code (*set_events)(stopworld_world *world, uint32_t provider, uint64_t keywords, uint32_t level);
    /* The MPS filter: takes `reset` out, then inverts `flip`. `old` may be null. */
    stopworld_code (*telemetry_control)(stopworld_world *world, uint64_t reset, uint64_t flip, uint64_t *old);
    /* When it returns, the host and all other consumers have everything that was fired before. */
    stopworld_code (*telemetry_flush)(stopworld_world *world, uint64_t timeout_ms);

    /* Names: a text becomes a label, and an address gets it. */
    stopworld_code (*telemetry_intern)(stopworld_world *world, const char *text, uint64_t *label);
    stopworld_code (*telemetry_label)(stopworld_world *world, const void *address, uint64_t label);
    /* The text of a label, cut off to `capacity` and ended by a 0; `length`, which may be null, is what it would have taken without. */
    stopworld_code (*telemetry_text)(uint64_t label, char *buffer, size_t capacity, size_t *length);

    /* Events are numbered from 0. */
    stopworld_code (*event_count)(uint32_t *count);
    stopworld_code (*event_by_name)(const char *name, uint32_t *event_id);
    /* The header of `event` says what it has room for. */
    stopworld_code (*event_describe)(uint32_t event_id, stopworld_event *event);
} stopworld_collector;

/* The host's table is copied; its context and functions stay in use for ever. A second call with the same context and functions gives the
 * same collector. */
stopworld_code stopworld_initialize(const stopworld_host *host, const stopworld_collector **collector);
typedef stopworld_code (*stopworld_initialize_function)(const stopworld_host *host, const stopworld_collector **collector);

/* The collector's last_error, for who has got no table. */
const char *stopworld_last_error(void);
typedef const char *(*stopworld_last_error_function)(void);

#ifdef __cplusplus
}
#endif

#endif
