/*
 * The bare limit of marking: the shapes of pause.c, 32-byte objects side by side in one mapping of huge pages, no
 * size classes, no type information, no conservative test of what is a reference; mark bits in a side bitmap.
 *
 * As in pause.c, an array refers to all objects of the random graph. It is scanned in slices.
 *
 * usage: mark megabytes list|tree|graph rounds [queue] [serve]
 *   queue  length of the prefetch queue: 0 (none) or 16 (the default)
 *
 * The queue (Cher, Hosking, Vitek 2004): an object taken from the mark stack is prefetched and put into a short FIFO
 * queue. It is scanned when it leaves the queue, a few objects later, when its cache line has arrived. Without the queue,
 * each object of a random graph costs a full cache miss.
 */
#include "common.h"

#include <sys/mman.h>

enum { QUEUE = 16, SLICE = 256, HUGE_PAGE = 2 << 20 };

typedef struct Object {
    struct Object *a, *b;
    uint64_t padding[2];
} Object;

static Object *heap, **stack, **roots;
static uint64_t *bits;
static size_t count, used, root_count = 1;

static inline int test_and_set(Object *o)
{
    size_t i = o - heap;
    uint64_t bit = 1ull << (i % 64);
    if (bits[i / 64] & bit)
        return 0;
    bits[i / 64] |= bit;
    return 1;
}

/* Pushes the unmarked roots of the next slice that has some onto the empty stack. Returns its new top. */
static __attribute__((noinline)) size_t push_roots(size_t *scanned)
{
    size_t top = 0;
    while (!top && *scanned < root_count) {
        size_t end = *scanned + SLICE < root_count ? *scanned + SLICE : root_count;
        for (; *scanned < end; ++*scanned)
            if (test_and_set(roots[*scanned]))
                stack[top++] = roots[*scanned];
    }
    return top;
}

static size_t mark_without_queue(void)
{
    size_t top = 0, marked = 0, scanned = 0;
    while (top || (scanned < root_count && (top = push_roots(&scanned)))) {
        Object *o = stack[--top];
        marked++;
        if (o->a && test_and_set(o->a))
            stack[top++] = o->a;
        if (o->b && test_and_set(o->b))
            stack[top++] = o->b;
    }
    return marked;
}

static size_t mark_with_queue(void)
{
    Object *queue[QUEUE] = {0};
    size_t head = 0, top = 0, marked = 0, queued = 0, scanned = 0;
    for (;;) {
        Object *in = 0;
        if (top || (scanned < root_count && (top = push_roots(&scanned)))) {
            in = stack[--top];
            __builtin_prefetch(in, 0, 3);
            queued++;
        } else if (!queued) {
            return marked;
        }
        Object *o = queue[head];
        queue[head] = in;
        head = (head + 1) % QUEUE;
        if (!o)
            continue;
        queued--;
        marked++;
        if (o->a && test_and_set(o->a))
            stack[top++] = o->a;
        if (o->b && test_and_set(o->b))
            stack[top++] = o->b;
    }
}

static Object *tree(int depth)
{
    Object *o = &heap[used++];
    if (depth > 0) {
        o->a = tree(depth - 1);
        o->b = tree(depth - 1);
    }
    return o;
}

static void build(const char *shape)
{
    uint64_t random = 88172645463325252ull;
    if (!strcmp(shape, "tree")) {
        int depth = 0;
        while (((2ull << (depth + 1)) - 1) <= count)
            depth++;
        roots[0] = tree(depth);
    } else if (!strcmp(shape, "list")) {
        for (size_t i = 1; i < count; i++)
            heap[i].a = &heap[i - 1];
        roots[0] = &heap[count - 1];
    } else {
        for (size_t i = 0; i < count; i++) {
            heap[i].a = &heap[xorshift(&random) % count];
            heap[i].b = &heap[xorshift(&random) % count];
            roots[i] = &heap[i];
        }
        root_count = count;
    }
}

static void *huge_pages(size_t bytes)
{
    char *p = mmap(0, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    p = (char *)(((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

int main(int argc, char **argv)
{
    const char *usage = "mark megabytes list|tree|graph rounds [queue]";
    serve_or_once(&argc, argv);
    usage_unless(argc == 4 || argc == 5, usage);
    double megabytes = atof(argv[1]);
    int rounds = atoi(argv[3]), queue = argc == 5 ? atoi(argv[4]) : QUEUE;
    usage_unless(megabytes > 0 && rounds >= 1 && (queue == 0 || queue == QUEUE), usage);
    count = megabytes * 1048576 / sizeof(Object);
    heap = huge_pages(count * sizeof(Object));
    bits = huge_pages(count / 8 + 8);
    stack = huge_pages((count + SLICE) * sizeof *stack);
    roots = huge_pages(count * sizeof *roots);
    build(argv[2]);
    uint64_t *samples = calloc(rounds, sizeof *samples);
    while (next_round()) {
        size_t marked = 0;
        for (int i = 0; i < rounds; i++) {
            memset(bits, 0, count / 8 + 8);
            uint64_t start = now_ns();
            marked = queue ? mark_with_queue() : mark_without_queue();
            samples[i] = now_ns() - start;
        }
        sort_samples(samples, rounds);
        double mark_ms = percentile(samples, rounds, .5) / 1e6;
        printf("program=mark shape=%s queue=%d objects=%zu mark_ms=%.3f mobj_s=%.2f peak_rss_mb=%.1f\n", argv[2], queue,
               marked, mark_ms, marked / (mark_ms * 1e3), peak_rss_mb());
    }
    return 0;
}
