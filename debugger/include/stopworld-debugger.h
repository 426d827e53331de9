/* The debugger interface of a process that uses stopworld: version 1 of the contract.
 *
 * docs/debugger-contract.md explains its use step by step. All structures lie in the memory of the debugged process (x86-64,
 * little-endian), and the debugger reads them there. The field offsets of worlds, threads and requests are not fixed here: the
 * descriptor contains them.
 */
#ifndef STOPWORLD_DEBUGGER_H
#define STOPWORLD_DEBUGGER_H

#include <stdint.h>

#define STOPWORLD_DEBUGGER_SYMBOL "stopworld_debugger"
#define STOPWORLD_DEBUGGER_MAGIC "STOPWRLD" /* 8 bytes, no terminating zero */
#define STOPWORLD_DEBUGGER_VERSION 1u
#define STOPWORLD_HEAP_LAYOUT_VERSION 2u

/* The ELF note that locates the descriptor: section .note.stopworld, in a PT_NOTE segment. It contains one int64_t: the
 * distance from the address of that number to the descriptor. */
#define STOPWORLD_NOTE_NAME "stopworld"
#define STOPWORLD_NOTE_TYPE 1u

/* The control word. */
#define STOPWORLD_CONTROL_FULL 1ull
#define STOPWORLD_CONTROL_ASSISTED 2ull
#define STOPWORLD_CONTROL_MODE 0xffull
#define STOPWORLD_CONTROL_BREAKPOINT (1ull << 8) /* notify by the breakpoint, not by the signal */
#define STOPWORLD_CONTROL_PHASES (1ull << 9)     /* notify of each phase */
#define STOPWORLD_CONTROL_WHO_SHIFT 32           /* bits 32-63: an attach id, different at each attach */

/* Requests. */
#define STOPWORLD_REQUEST_MAGIC "STOPREQ1" /* 8 bytes, no terminating zero */

enum stopworld_notice {
    STOPWORLD_STOP_WORLD = 1,
    STOPWORLD_START_WORLD = 2,
    STOPWORLD_THREAD_CREATED = 3,
    STOPWORLD_THREAD_EXITED = 4,
    STOPWORLD_PHASE = 5,
    STOPWORLD_AGAIN = 6
};

/* Answer to STOP_WORLD in full mode: if the debugger dies, the threads that it had stopped resume and park. */
#define STOPWORLD_PARKED_ON_DEATH 1ull

enum stopworld_phase {
    STOPWORLD_RUNNING = 0,
    STOPWORLD_SUSPEND_BEGIN = 1,
    STOPWORLD_SUSPEND_END = 2,
    STOPWORLD_GC_START = 3,
    STOPWORLD_ROOTS_BEGIN = 4,
    STOPWORLD_ROOTS_END = 5,
    STOPWORLD_MARK_BEGIN = 6,
    STOPWORLD_MARK_END = 7,
    STOPWORLD_WEAK_END = 8,
    STOPWORLD_SWEEP_BEGIN = 9,
    STOPWORLD_SWEEP_END = 10,
    STOPWORLD_GC_END = 11,
    STOPWORLD_RESTART_BEGIN = 12,
    STOPWORLD_RESTART_END = 13
};

/* A thread's state word. */
#define STOPWORLD_PLACE 3ull
#define STOPWORLD_DETACHED 0ull
#define STOPWORLD_THREAD_RUNNING 1ull
#define STOPWORLD_BLOCKING 2ull
#define STOPWORLD_PARKED 3ull
#define STOPWORLD_HELD_BY_COLLECTION 4ull
#define STOPWORLD_HELD_BY_USER 8ull

/* Tables of field offsets. The first member of each is the size of the structure in this process. Later versions add members at
 * the end. */

typedef struct stopworld_request_offsets {
    uint64_t size;
    uint64_t magic;        /* 8 bytes */
    uint64_t sequence;     /* uint64_t */
    uint64_t acknowledged; /* uint64_t */
    uint64_t answer;       /* uint64_t */
    uint64_t event;        /* uint32_t, enum stopworld_notice */
    uint64_t detail;       /* uint32_t: for PHASE the phase; for stops the mode by which to serve them, 1 or 2 */
    uint64_t tid;          /* int32_t */
    uint64_t world;        /* pointer */
    uint64_t thread;       /* pointer or 0 */
    uint64_t slot;         /* pointer or 0: the thread's stack_ptr */
    uint64_t epoch;        /* uint64_t */
} stopworld_request_offsets;

typedef struct stopworld_world_offsets {
    uint64_t size;
    uint64_t next;        /* pointer or 0 */
    uint64_t number;      /* uint64_t */
    uint64_t threads;     /* pointer or 0 */
    uint64_t bridged;     /* uint32_t: 1 if the world is stopped through this contract, else 0 */
    uint64_t phase;       /* uint32_t, enum stopworld_phase */
    uint64_t collecting;  /* int32_t: the tid of the thread that has stopped the world, or 0 */
    uint64_t epoch;       /* uint64_t */
    uint64_t collections; /* uint64_t */
    uint64_t heap_low;    /* pointer */
    uint64_t heap_high;   /* pointer */
    uint64_t collector;   /* opaque */
    uint64_t stopper;     /* one byte of length, then the name */
} stopworld_world_offsets;

typedef struct stopworld_thread_offsets {
    uint64_t size;
    uint64_t stack_ptr;      /* pointer: write the lowest address of the live stack */
    uint64_t saved_sp;       /* pointer: the stack pointer that the thread itself published */
    uint64_t state;          /* uint64_t, see above */
    uint64_t tid;            /* int32_t */
    uint64_t stack_low;      /* pointer */
    uint64_t stack_high;     /* pointer */
    uint64_t save_area;      /* pointer: room for registers */
    uint64_t save_area_size; /* uint64_t */
    uint64_t save_area_used; /* uint32_t: number of bytes of save_area that hold registers */
    uint64_t name;           /* one byte of length, then the name */
    uint64_t frozen;         /* uint64_t: write the request's epoch here, after all other members */
    uint64_t next;           /* pointer or 0 */
    uint64_t serial;         /* uint64_t: incremented each time the record is reused */
} stopworld_thread_offsets;

/* Addresses of functions that the debugger may call in a stopped thread; `count` of them are present. They return a count or 1/0,
 * or a negative error, enum stopworld_refusal. They only read, allocate nothing, take no lock, and always terminate. All other threads must be stopped
 * during a call. */
typedef struct stopworld_calls {
    uint64_t count;
    uint64_t describe;           /* (address, stopworld_object *) */
    uint64_t fields;             /* (address, stopworld_field *, capacity) */
    uint64_t referrers;          /* (address, uint64_t *, capacity) */
    uint64_t path;               /* (address, stopworld_step *, capacity) */
    uint64_t request_collection; /* (world, or 0 for all) */
    uint64_t census;             /* (world, stopworld_census_row *, capacity) */
} stopworld_calls;

/* How the heap is read without a call, see the contract's section 10. Offsets and sizes are in bytes. */

typedef struct stopworld_type_offsets {
    uint64_t size;
    uint64_t magic;       /* uint64_t: equal to type_magic below */
    uint64_t name;        /* pointer */
    uint64_t name_bytes;  /* uint64_t */
    uint64_t value_bytes; /* uint64_t: size of a value; of an array, of its length word */
    uint64_t shape;       /* uint8_t, enum stopworld_shape */
    uint64_t bitmaps;     /* uint64_t[1] or [4]: a bit for each word of the value */
    uint64_t stride;      /* uint32_t: bytes between elements of an array */
    uint64_t element;     /* uint64_t[4]: a bit for each word of an element */
    uint64_t is_array;    /* uint8_t */
    uint64_t drop_in_place; /* pointer: the function that drops a value, or 0 */
} stopworld_type_offsets;

typedef struct stopworld_cache_offsets {
    uint64_t size;
    uint64_t bins;          /* number of bins */
    uint64_t cursor;        /* pointer: header of the cell that is allocated next, or 0 */
    uint64_t cursor_stride; /* from the cursor of a bin to that of the next */
    uint64_t block;         /* uint64_t, of which the low 32 bits count: index of the bin's block, all ones for none */
    uint64_t end;           /* pointer: end of the bin's free cells */
    uint64_t block_stride;  /* from block and end of a bin to those of the next */
    uint64_t sweeping;      /* uint32_t: index of the block that is being swept, plus 1 */
    uint64_t has_arena;     /* uint8_t */
} stopworld_cache_offsets;

typedef struct stopworld_block_offsets {
    uint64_t block_bytes;
    uint64_t first_cell;     /* offset in the block */
    uint64_t header_bytes;   /* of a cell */
    uint64_t marks_per_block;
    uint64_t classes;
    uint64_t head_bytes;     /* of an entry in the table of heads */
    uint64_t head_state;     /* uint8_t, enum stopworld_block_state */
    uint64_t head_space;     /* uint8_t: 0 small, 1 pinned, 2 large */
    uint64_t tail_bytes;     /* of an entry in the table of tails */
    uint64_t tail_first_run; /* uint32_t: index of a cell, all ones for none */
    uint64_t tail_large_blocks; /* uint32_t */
    uint64_t tail_large_bytes;  /* uint64_t */
} stopworld_block_offsets;

typedef struct stopworld_heap_layout {
    uint64_t version; /* STOPWORLD_HEAP_LAYOUT_VERSION */
    uint64_t size;
    uint64_t tables;                /* in a world: pointer to its stopworld_heap_tables */
    uint64_t thread_cache;          /* in a thread's record: pointer to its allocation cache, or 0 */
    uint64_t thread_alternate_low;  /* in a thread's record: bounds of its alternate signal stack */
    uint64_t thread_alternate_high;
    uint64_t thread_gone;           /* in a thread's record, uint32_t: 1 if it ended without detaching */
    uint64_t type_magic;            /* the first word of each type */
    stopworld_type_offsets types;
    stopworld_cache_offsets cache;
    stopworld_block_offsets blocks;
} stopworld_heap_layout;

/* The addresses of one world's tables. */
typedef struct stopworld_heap_tables {
    uint64_t size;
    uint64_t low;             /* the heap */
    uint64_t reserved_bytes;
    uint64_t committed_bytes; /* pointer to uint64_t */
    uint64_t epoch;           /* pointer to uint8_t: the mark of the present collection, or of the last */
    uint64_t swept_epoch;     /* pointer to uint8_t: the mark of the last finished collection */
    uint64_t words;           /* uint64_t for each block */
    uint64_t heads;
    uint64_t tails;
    uint64_t marks;
    uint64_t kinds;           /* uint8_t for each 16 bytes of memory from address 0 on, or 0 */
    uint64_t kind_types;      /* 256 pointers to types */
    uint64_t pointers;        /* which words in objects are references: 0 addresses of objects, 1 any in them, 2 displacements too */
    uint64_t displacements;   /* pointer to uint64_t */
    uint64_t handles;         /* uint64_t each; odd or 0 if free */
    uint64_t handles_used;    /* pointer to uint64_t */
    uint64_t handles_most;
    uint64_t ranges;          /* uint64_t[2] each: beginning and end; the end is 0 if free */
    uint64_t ranges_used;     /* pointer to uint64_t */
    uint64_t ranges_most;
    uint64_t ready;           /* the queue of finalizers */
    uint64_t ready_first;     /* pointer to uint64_t */
    uint64_t ready_end;       /* pointer to uint64_t */
    uint64_t ready_most;
    uint64_t ready_bytes;     /* of an entry */
    uint64_t ready_object;    /* offset in an entry */
    uint64_t stacks;          /* pointer to uint64_t[2]: address and number of the registered stacks */
    uint64_t stack_bytes;     /* of an entry */
    uint64_t stack_low;       /* offsets in an entry */
    uint64_t stack_high;
} stopworld_heap_tables;

typedef struct stopworld_descriptor {
    char magic[8];
    uint32_t version;
    uint32_t size;
    uint64_t control;         /* written by the debugger, 8 bytes at once */
    uint32_t notify_signal;   /* 0: no world yet */
    uint32_t suspend_signal;  /* 0: none. Always pass it on to the thread, at once, without reporting it to the user */
    uint64_t notify;          /* code: nop; ret. Set the breakpoint here; rdi = the request */
    uint64_t park;            /* code: where a thread with a pushed signal frame resumes if the debugger dies */
    uint64_t call_return;     /* code: int3. The return address for inferior calls */
    uint64_t worlds;          /* pointer or 0 */
    uint64_t scratch;         /* memory for the results of inferior calls */
    uint64_t scratch_size;
    stopworld_request_offsets request;
    stopworld_world_offsets world;
    stopworld_thread_offsets thread;
    stopworld_calls calls;
    stopworld_heap_layout heap;
} stopworld_descriptor;

/* Shapes of types: which words of an object may be references. */
enum stopworld_shape {
    STOPWORLD_LEAF = 0,    /* none */
    STOPWORLD_WORDS = 1,   /* one bitmap */
    STOPWORLD_WIDE = 2,    /* four bitmaps */
    STOPWORLD_ARRAY = 3,   /* a length, then elements */
    STOPWORLD_WEAK = 4,    /* none; the first word is weak */
    STOPWORLD_UNTYPED = 5, /* any */
    STOPWORLD_BOUND = 6    /* any */
};

/* States of blocks. */
enum stopworld_block_state {
    STOPWORLD_BLOCK_FREE = 0,
    STOPWORLD_BLOCK_OWNED = 1,
    STOPWORLD_BLOCK_FULL = 2,
    STOPWORLD_BLOCK_UNSWEPT = 3,
    STOPWORLD_BLOCK_LARGE_HEAD = 4,
    STOPWORLD_BLOCK_LARGE_TAIL = 5,
    STOPWORLD_BLOCK_RESERVED = 6
};

/* Errors of calls. */
enum stopworld_refusal {
    STOPWORLD_NO_WORLD = -1,  /* the address is in no world's heap, or there is no such world */
    STOPWORLD_NO_OBJECT = -2, /* there is no object at the address, neither inside nor just past its end */
    STOPWORLD_NO_MEMORY = -3, /* the system provided no memory for the search */
    STOPWORLD_NO_BUFFER = -4, /* the buffer is null and the capacity is not 0, or the buffer is not aligned to 8 */
    STOPWORLD_CHANGED = -5,   /* an object that had been found was gone: other threads ran, or memory is damaged */
    STOPWORLD_BUSY = -6       /* a thread was stopped while it changed data that the result depends on: resume, and retry */
};

/* Results of calls. */

typedef struct stopworld_object {
    uint64_t base;
    uint64_t bytes;
    uint64_t cell_bytes;
    uint64_t block;
    uint64_t type_info;
    uint64_t type_name; /* address */
    uint64_t type_name_bytes;
    uint64_t rust_name; /* address */
    uint64_t rust_name_bytes;
    uint64_t fields;
    uint64_t length;
    uint64_t world;
    uint32_t space; /* 0 small, 1 pinned, 2 large */
    uint32_t flags;
    uint32_t marked;
    uint32_t reserved;
} stopworld_object;

typedef struct stopworld_field {
    uint64_t offset;
    uint64_t value;
    uint64_t target; /* the object that the value references, or 0 */
} stopworld_field;

typedef struct stopworld_step {
    uint32_t kind; /* 0 field, 1 stack, 2 registers, 3 partially initialised object, 4 registered stack, 5 range, 6 handle, 7 finalizer */
    int32_t tid;
    uint64_t slot;
    uint64_t value;
    uint64_t object;
    uint64_t offset;
} stopworld_step;

typedef struct stopworld_census_row {
    uint64_t type_info;
    uint64_t type_name; /* address */
    uint64_t type_name_bytes;
    uint64_t objects;
    uint64_t bytes;
} stopworld_census_row;

#endif
