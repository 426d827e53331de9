/*
 * GCBench (J. Ellis, P. Kovac, H. Boehm), written in C from its public description: a stretch tree, a
 * long-lived tree and a long-lived array of doubles, then many short-lived trees of depth 4 to 16, built top down
 * and bottom up. Each thread runs the whole benchmark.
 *
 * usage: gcbench [threads]
 * With -DUSE_MALLOC the same program with malloc and free.
 */
#include "peer.h"

enum { STRETCH_DEPTH = 18, LONG_LIVED_DEPTH = 16, ARRAY_LENGTH = 500000, MIN_DEPTH = 4, MAX_DEPTH = 16 };

typedef struct Node {
    struct Node *left, *right;
    int i, j;
} Node;

static int tree_size(int depth)
{
    return (1 << (depth + 1)) - 1;
}

static int iterations(int depth)
{
    return 2 * tree_size(STRETCH_DEPTH) / tree_size(depth);
}

static inline Node *new_node(Node *left, Node *right)
{
    Node *node = ALLOCATE(sizeof(Node));
    node->left = left;
    node->right = right;
    return node;
}

#ifdef USE_MALLOC
static void free_tree(Node *node)
{
    if (node->left) {
        free_tree(node->left);
        free_tree(node->right);
    }
    free(node);
}
#else
static void free_tree(Node *node)
{
    (void)node;
}
#endif

/* Top down: the parent is older than its children. */
static void populate(int depth, Node *node)
{
    if (depth <= 0)
        return;
    node->left = new_node(0, 0);
    node->right = new_node(0, 0);
    populate(depth - 1, node->left);
    populate(depth - 1, node->right);
}

/* Bottom up: the children are older than their parent. */
static Node *make_tree(int depth)
{
    if (depth <= 0)
        return new_node(0, 0);
    Node *left = make_tree(depth - 1);
    Node *right = make_tree(depth - 1);
    return new_node(left, right);
}

static void short_lived(int depth)
{
    int n = iterations(depth);
    for (int i = 0; i < n; i++) {
        Node *tree = new_node(0, 0);
        populate(depth, tree);
        free_tree(tree);
    }
    for (int i = 0; i < n; i++)
        free_tree(make_tree(depth));
}

static void *benchmark(void *argument)
{
    free_tree(make_tree(STRETCH_DEPTH));
    Node *long_lived = new_node(0, 0);
    populate(LONG_LIVED_DEPTH, long_lived);
    double *array = ALLOCATE_POINTERLESS(sizeof(double) * ARRAY_LENGTH);
    for (int i = 0; i < ARRAY_LENGTH / 2; i++)
        array[i] = 1.0 / (i + 1);
    for (int depth = MIN_DEPTH; depth <= MAX_DEPTH; depth += 2)
        short_lived(depth);
    if (long_lived->left == 0 || array[1000] != 1.0 / 1001) {
        fprintf(stderr, "gcbench: a long-lived object was lost\n");
        abort();
    }
    GC_reachable_here(long_lived);
    GC_reachable_here(array);
    return argument;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t handles[MAX_THREADS];
    usage_unless(threads >= 1 && threads <= MAX_THREADS, "gcbench [threads]");
    init_program();
    uint64_t start = now_ns();
    if (threads == 1) {
        benchmark(0);
    } else {
        for (int i = 0; i < threads; i++)
            pthread_create(&handles[i], 0, benchmark, 0);
        for (int i = 0; i < threads; i++)
            pthread_join(handles[i], 0);
    }
    printf("program=gcbench threads=%d wall_ms=%.2f cpu_s=%.3f peak_rss_mb=%.1f collections=%lu worst_pause_ms=%.3f\n", threads,
           (now_ns() - start) / 1e6, cpu_s(), peak_rss_mb(), collections(), worst_pause_ms());
    return 0;
}
