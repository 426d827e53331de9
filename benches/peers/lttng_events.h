/* The tracepoint provider of lttng.c: one event of two words. LTTng's headers include this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER stopworld_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"

#if !defined(LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    stopworld_bench, object_allocated,
    LTTNG_UST_TP_ARGS(uint64_t, addr, uint64_t, bytes),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, addr, addr)
        lttng_ust_field_integer(uint64_t, bytes, bytes)
    )
)

#endif

#include <lttng/tracepoint-event.h>
