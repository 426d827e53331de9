/*
 * The time to stop and restart threads.
 *
 * usage: stw threads busy|sleep|read|blocking|alloc collections [serve]
 *   busy      the threads spin
 *   sleep     the threads are in nanosleep (repeated, 200 ms each)
 *   read      the threads are in read() on a pipe without data
 *   blocking  the same read() inside GC_do_blocking, where no signal is needed
 *   alloc     the threads allocate 32-byte objects
 * A round is one unrecorded collection and then the given number of recorded ones, 2 ms apart. Busy and allocating
 * threads run only during a round. Between two collections the program waits until each of them has run again: a
 * thread that is still returning from the last stop would make the next stop look cheaper than it is.
 */
#include "peer.h"
#include "threads.h"

enum { MAX_EVENTS = 1 << 18 };

static uint64_t stop_began, stop_ended, start_began;
static uint64_t stops[MAX_EVENTS], starts[MAX_EVENTS], pauses[MAX_EVENTS];
static size_t recorded;
static int recording;

static void GC_CALLBACK on_event(GC_EventType event)
{
    uint64_t t = now_ns();
    switch (event) {
    case GC_EVENT_PRE_STOP_WORLD:
        stop_began = t;
        break;
    case GC_EVENT_POST_STOP_WORLD:
        stop_ended = t;
        break;
    case GC_EVENT_PRE_START_WORLD:
        start_began = t;
        break;
    case GC_EVENT_POST_START_WORLD:
        if (recording && recorded < MAX_EVENTS) {
            stops[recorded] = stop_ended - stop_began;
            starts[recorded] = t - start_began;
            pauses[recorded] = t - stop_began;
            recorded++;
        }
        break;
    default:
        break;
    }
}

static void *read_for_ever(void *argument)
{
    wait_in_read();
    return argument;
}

static void *allocate_once(void *argument)
{
    void *volatile object = GC_MALLOC(32);
    (void)object;
    return argument;
}

static void step_by_allocating(void)
{
    allocate_once(0);
}

static void *mutator(void *argument)
{
    struct spinner *self = argument;
    thread_is_ready();
    switch (mode) {
    case MODE_BUSY:
        run_in_rounds(self, NULL);
        break;
    case MODE_ALLOC:
        run_in_rounds(self, step_by_allocating);
        break;
    case MODE_SLEEP:
        sleep_for_ever();
        break;
    case MODE_BLOCKING:
        GC_do_blocking(read_for_ever, 0);
        break;
    case MODE_READ:
        wait_in_read();
        break;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *usage = "stw threads busy|sleep|read|blocking|alloc collections";
    serve_or_once(&argc, argv);
    usage_unless(argc == 4, usage);
    int threads = atoi(argv[1]), collections = atoi(argv[3]);
    usage_unless(threads >= 0 && threads <= MAX_THREADS && mode_from(argv[2]) && collections >= 1, usage);
    GC_INIT();
    start_threads(threads, mutator);
    GC_set_on_collection_event(on_event);
    while (next_round()) {
        recorded = 0;
        let_them_run(threads);
        for (int i = 0; i <= collections; i++) {
            recording = i > 0;
            GC_gcollect();
            recording = 0;
            usleep(2000);
            wait_until_all_ran(threads);
        }
        make_them_rest(threads);
        sort_samples(stops, recorded);
        sort_samples(starts, recorded);
        sort_samples(pauses, recorded);
        printf("program=stw threads=%d mode=%s n=%zu stop_us=%.2f stop_p99_us=%.2f restart_us=%.2f restart_p99_us=%.2f "
               "pause_us=%.2f pause_p99_us=%.2f per_thread_ns=%.2f\n",
               threads, argv[2], recorded, percentile(stops, recorded, .5) / 1e3, percentile(stops, recorded, .99) / 1e3,
               percentile(starts, recorded, .5) / 1e3, percentile(starts, recorded, .99) / 1e3,
               percentile(pauses, recorded, .5) / 1e3, percentile(pauses, recorded, .99) / 1e3,
               (double)(percentile(stops, recorded, .5) + percentile(starts, recorded, .5)) / (threads ? threads : 1));
    }
    fflush(stdout);
    _exit(0); /* the threads never end by themselves */
}
