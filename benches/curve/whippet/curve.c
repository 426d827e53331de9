/*
 * The programs of benches/peers for whippet: curve gcbench|bintrees HEAP_BYTES. One thread; bintrees has depth 18.
 *
 * This file and the headers beside it are copied into whippet's folder of benchmarks, and built there by its makefile. The headers that they
 * include are whippet's own, but for common.h.
 */
#include "common.h"

#include "curve-types.h"
#include "gc-api.h"
#include "gc-barrier.h"
#include "gc-basic-stats.h"
#include "simple-allocator.h"
#include "simple-roots-api.h"

enum { BINTREES_DEPTH = 18 };
enum { STRETCH_DEPTH = 18, LONG_LIVED_DEPTH = 16, ARRAY_LENGTH = 500000, MIN_DEPTH = 4, MAX_DEPTH = 16 };

typedef HANDLE_TO(Pair) PairHandle;
typedef HANDLE_TO(Node) NodeHandle;
typedef HANDLE_TO(Doubles) DoublesHandle;

typedef struct Context {
    struct gc_mutator *mutator;
    struct gc_mutator_roots roots;
} Context;

/* Stores a reference in an object that may be old. */
#define STORE(context, object, field, value)                                                                   \
    do {                                                                                                       \
        gc_write_barrier((context)->mutator, gc_ref_from_heap_object(object), sizeof *(object),               \
                         gc_edge(&(object)->field), gc_ref_from_heap_object(value));                          \
        (object)->field = (value);                                                                             \
    } while (0)

static Pair *build(Context *context, int depth)
{
    Pair *pair = gc_allocate_with_kind(context->mutator, ALLOC_KIND_PAIR, sizeof(Pair));
    if (depth == 0)
        return pair;
    PairHandle self = {pair};
    PUSH_HANDLE(context, self);
    Pair *left = build(context, depth - 1);
    STORE(context, HANDLE_REF(self), left, left);
    Pair *right = build(context, depth - 1);
    STORE(context, HANDLE_REF(self), right, right);
    POP_HANDLE(context);
    return HANDLE_REF(self);
}

static long count(Pair *pair)
{
    return pair->left ? 1 + count(pair->left) + count(pair->right) : 1;
}

static long bintrees(Context *context)
{
    long sum = count(build(context, BINTREES_DEPTH + 1));
    PairHandle long_lived = {build(context, BINTREES_DEPTH)};
    PUSH_HANDLE(context, long_lived);
    for (int depth = 4; depth <= BINTREES_DEPTH; depth += 4)
        for (long trees = 1L << (BINTREES_DEPTH - depth + 4); trees > 0; trees--)
            sum += count(build(context, depth));
    sum += count(HANDLE_REF(long_lived));
    POP_HANDLE(context);
    return sum;
}

static inline Node *new_node(Context *context)
{
    return gc_allocate_with_kind(context->mutator, ALLOC_KIND_NODE, sizeof(Node));
}

static void populate(Context *context, int depth, Node *node)
{
    if (depth <= 0)
        return;
    NodeHandle self = {node};
    PUSH_HANDLE(context, self);
    Node *left = new_node(context);
    STORE(context, HANDLE_REF(self), left, left);
    Node *right = new_node(context);
    STORE(context, HANDLE_REF(self), right, right);
    populate(context, depth - 1, HANDLE_REF(self)->left);
    populate(context, depth - 1, HANDLE_REF(self)->right);
    POP_HANDLE(context);
}

static Node *make_tree(Context *context, int depth)
{
    if (depth <= 0)
        return new_node(context);
    NodeHandle left = {make_tree(context, depth - 1)};
    PUSH_HANDLE(context, left);
    NodeHandle right = {make_tree(context, depth - 1)};
    PUSH_HANDLE(context, right);
    Node *node = new_node(context);
    POP_HANDLE(context);
    POP_HANDLE(context);
    node->left = HANDLE_REF(left);
    node->right = HANDLE_REF(right);
    return node;
}

static int tree_size(int depth)
{
    return (1 << (depth + 1)) - 1;
}

static void short_lived(Context *context, int depth)
{
    int trees = 2 * tree_size(STRETCH_DEPTH) / tree_size(depth);
    for (int i = 0; i < trees; i++) {
        NodeHandle tree = {new_node(context)};
        PUSH_HANDLE(context, tree);
        populate(context, depth, HANDLE_REF(tree));
        POP_HANDLE(context);
    }
    for (int i = 0; i < trees; i++)
        (void)make_tree(context, depth);
}

static void gcbench(Context *context)
{
    (void)make_tree(context, STRETCH_DEPTH);
    NodeHandle long_lived = {new_node(context)};
    PUSH_HANDLE(context, long_lived);
    populate(context, LONG_LIVED_DEPTH, HANDLE_REF(long_lived));
    size_t bytes = sizeof(Doubles) + ARRAY_LENGTH * sizeof(double);
    DoublesHandle array = {gc_allocate_pointerless_with_kind(context->mutator, ALLOC_KIND_DOUBLES, bytes)};
    HANDLE_REF(array)->length = ARRAY_LENGTH;
    PUSH_HANDLE(context, array);
    for (int i = 0; i < ARRAY_LENGTH / 2; i++)
        HANDLE_REF(array)->values[i] = 1.0 / (i + 1);
    for (int depth = MIN_DEPTH; depth <= MAX_DEPTH; depth += 2)
        short_lived(context, depth);
    if (HANDLE_REF(long_lived)->left == 0 || HANDLE_REF(array)->values[1000] != 1.0 / 1001) {
        fprintf(stderr, "gcbench: a long-lived object was lost\n");
        abort();
    }
    POP_HANDLE(context);
    POP_HANDLE(context);
}

int main(int argc, char **argv)
{
    usage_unless(argc == 3, "curve gcbench|bintrees HEAP_BYTES");
    struct gc_options *options = gc_allocate_options();
    gc_options_set_int(options, GC_OPTION_HEAP_SIZE_POLICY, GC_HEAP_SIZE_FIXED);
    gc_options_set_size(options, GC_OPTION_HEAP_SIZE, atol(argv[2]));
    struct gc_heap *heap;
    struct gc_mutator *mutator;
    struct gc_basic_stats stats;
    if (!gc_init(options, gc_empty_stack_addr(), &heap, &mutator, GC_BASIC_STATS, &stats)) {
        fprintf(stderr, "no heap of %s bytes\n", argv[2]);
        return 1;
    }
    Context context = {.mutator = mutator};
    gc_mutator_set_roots(mutator, &context.roots);
    uint64_t start = now_ns();
    long check = 0;
    if (!strcmp(argv[1], "gcbench"))
        gcbench(&context);
    else
        check = bintrees(&context);
    double wall_ms = (now_ns() - start) / 1e6;
    printf("wall_ms=%.2f cpu_s=%.3f peak_rss_mb=%.1f collections=%lu worst_pause_ms=%.3f check=%ld\n", wall_ms, cpu_s(),
           peak_rss_mb(), (unsigned long)(stats.major_collection_count + stats.minor_collection_count),
           gc_latency_max(&stats.pause_times) / 1e3, check);
    return 0;
}
