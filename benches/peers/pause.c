/*
 * Full collections of a live heap of small linked objects; measures the number of objects marked per second.
 *
 * usage: pause megabytes object_size list|tree|graph collections [serve]
 * GC_MARKERS=n in the environment sets the number of markers (libgc's own switch).
 */
#include "peer.h"

enum { MAX_COLLECTIONS = 4096 };

typedef struct Object {
    struct Object *a, *b;
    uint64_t padding[];
} Object;

static Object *root, **all;
static uint64_t stop_began, mark_began, mark_ended;
static uint64_t marks[MAX_COLLECTIONS], pauses[MAX_COLLECTIONS], collects[MAX_COLLECTIONS];
static size_t recorded;

static void GC_CALLBACK on_event(GC_EventType event)
{
    uint64_t t = now_ns();
    switch (event) {
    case GC_EVENT_PRE_STOP_WORLD:
        stop_began = t;
        break;
    case GC_EVENT_MARK_START:
        mark_began = t;
        break;
    case GC_EVENT_MARK_END:
        mark_ended = t;
        break;
    case GC_EVENT_POST_START_WORLD:
        if (recorded < MAX_COLLECTIONS) {
            marks[recorded] = mark_ended - mark_began;
            pauses[recorded] = t - stop_began;
            recorded++;
        }
        break;
    default:
        break;
    }
}

static Object *tree(int depth, size_t size)
{
    Object *o = GC_MALLOC(size);
    if (depth > 0) {
        o->a = tree(depth - 1, size);
        o->b = tree(depth - 1, size);
    }
    return o;
}

/* Builds the deepest tree that fits, and a list of trees of depth 14 with the rest of the objects. */
static size_t build_tree(size_t count, size_t size)
{
    int depth = 0;
    while (((2ull << (depth + 1)) - 1) <= count)
        depth++;
    Object *big = tree(depth, size), *others = 0;
    size_t made = (2ull << depth) - 1, rest = count - made, big_size = made;
    const int small = 14;
    for (size_t i = 0; i < rest && i < big_size / 2; i += 2ull << small) {
        Object *t = tree(small, size), *link = GC_MALLOC(size);
        link->a = others;
        link->b = t;
        others = link;
        made += 2ull << small;
    }
    root = GC_MALLOC(size);
    root->a = big;
    root->b = others;
    return made;
}

static size_t build_list(size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        Object *o = GC_MALLOC(size);
        o->a = root;
        root = o;
    }
    return count;
}

/* Builds objects that each reference two objects picked at random. */
static size_t build_graph(size_t count, size_t size)
{
    uint64_t random = 88172645463325252ull;
    all = GC_MALLOC(count * sizeof(Object *));
    for (size_t i = 0; i < count; i++)
        all[i] = GC_MALLOC(size);
    for (size_t i = 0; i < count; i++) {
        all[i]->a = all[xorshift(&random) % count];
        all[i]->b = all[xorshift(&random) % count];
    }
    root = all[0];
    return count;
}

int main(int argc, char **argv)
{
    const char *usage = "pause megabytes object_size list|tree|graph collections";
    serve_or_once(&argc, argv);
    usage_unless(argc == 5, usage);
    double megabytes = atof(argv[1]);
    size_t size = atoi(argv[2]);
    const char *shape = argv[3];
    int collections = atoi(argv[4]);
    usage_unless(megabytes > 0 && size >= sizeof(Object) && collections >= 1 && collections <= MAX_COLLECTIONS, usage);
    GC_INIT();
    if (!getenv("NO_START_MARKERS"))
        GC_start_mark_threads();
    size_t count = megabytes * 1048576 / size;
    size_t objects = !strcmp(shape, "tree")   ? build_tree(count, size)
                     : !strcmp(shape, "list") ? build_list(count, size)
                                              : build_graph(count, size);
    GC_gcollect();
    GC_set_on_collection_event(on_event);
    while (next_round()) {
        recorded = 0;
        double cpu_start = cpu_s();
        for (int i = 0; i < collections; i++) {
            uint64_t start = now_ns();
            GC_gcollect();
            collects[i] = now_ns() - start;
        }
        double cpu_ms = (cpu_s() - cpu_start) / collections * 1e3;
        sort_samples(marks, recorded);
        sort_samples(pauses, recorded);
        sort_samples(collects, collections);
        double mark_ms = percentile(marks, recorded, .5) / 1e6;
        printf("program=pause shape=%s objects=%zu mark_ms=%.3f mobj_s=%.2f pause_ms=%.3f collect_ms=%.3f cpu_ms=%.2f "
               "peak_rss_mb=%.1f heap_mb=%.1f\n",
               shape, objects, mark_ms, objects / (mark_ms * 1e3), percentile(pauses, recorded, .5) / 1e6,
               percentile(collects, collections, .5) / 1e6, cpu_ms, peak_rss_mb(), GC_get_heap_size() / 1048576.0);
    }
    GC_reachable_here(root);
    return 0;
}
