/*
 * The cost of an event of two words with LTTng-UST, in the thread that fires it. Run by lttng.sh, which creates the session:
 * without a session the events are disabled. LTTng drops events when its buffers are full; the firing thread never waits.
 *
 * usage: lttng millions [serve]
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "common.h"
#include "lttng_events.h"

int main(int argc, char **argv)
{
    serve_or_once(&argc, argv);
    usage_unless(argc == 2 && atol(argv[1]) > 0, "lttng millions");
    long events = atol(argv[1]) * 1000000;
    while (next_round()) {
        uint64_t wall = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (long i = 0; i < events; i++)
            lttng_ust_tracepoint(stopworld_bench, object_allocated, i, 32);
        cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        wall = now_ns() - wall;
        printf("program=lttng on_ns=%.2f on_cpu_ns=%.2f\n", (double)wall / events, (double)cpu / events);
    }
    return 0;
}
