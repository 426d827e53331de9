/*
 * The speed of allocating small objects, including the collections this causes. The objects die at once, except the
 * latest 1024, which a ring per thread keeps alive.
 *
 * usage: alloc size threads thousands [atomic] [serve]      (thousands: objects per thread and round, in thousands)
 * With -DUSE_MALLOC the same program with calloc and free.
 */
#include "peer.h"

enum { RING = 1024 };

static size_t size;
static int threads, is_atomic;
static long objects;
static pthread_barrier_t barrier;
static uint64_t wall[MAX_THREADS], cpu[MAX_THREADS];

static void *allocate(void *argument)
{
    long id = (long)argument;
    void **ring = GC_MALLOC(RING * sizeof(void *));
    pthread_barrier_wait(&barrier);
    uint64_t wall_start = now_ns(), cpu_start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
#ifdef USE_MALLOC
    for (long i = 0; i < objects; i++) {
        void **slot = &ring[i % RING];
        free(*slot);
        *slot = calloc(1, size);
    }
#else
    if (is_atomic)
        for (long i = 0; i < objects; i++)
            ring[i % RING] = GC_MALLOC_ATOMIC(size);
    else
        for (long i = 0; i < objects; i++)
            ring[i % RING] = GC_MALLOC(size);
#endif
    wall[id] = now_ns() - wall_start;
    cpu[id] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
    GC_reachable_here(ring);
    return 0;
}

static void round_of_allocations(void)
{
    pthread_t handles[MAX_THREADS];
    unsigned long before = collections();
    if (threads == 1) {
        allocate(0);
    } else {
        for (long i = 0; i < threads; i++)
            pthread_create(&handles[i], 0, allocate, (void *)i);
        for (int i = 0; i < threads; i++)
            pthread_join(handles[i], 0);
    }
    sort_samples(wall, threads);
    sort_samples(cpu, threads);
    printf("program=alloc size=%zu threads=%d atomic=%d ns=%.3f cpu_ns=%.3f collections=%lu peak_rss_mb=%.1f\n", size,
           threads, is_atomic, (double)wall[threads - 1] / objects, (double)cpu[threads - 1] / objects,
           collections() - before, peak_rss_mb());
}

int main(int argc, char **argv)
{
    serve_or_once(&argc, argv);
    usage_unless(argc == 4 || argc == 5, "alloc size threads thousands [atomic]");
    size = atoi(argv[1]);
    threads = atoi(argv[2]);
    objects = atol(argv[3]) * 1000;
    is_atomic = argc == 5;
    usage_unless(size > 0 && threads >= 1 && threads <= MAX_THREADS && objects > 0,
                 "alloc size threads thousands [atomic]");
    init_program();
    pthread_barrier_init(&barrier, 0, threads);
    while (next_round())
        round_of_allocations();
    return 0;
}
