/*
 * binary-trees (Computer Language Benchmarks Game): a stretch tree, a long-lived tree, then many short-lived trees of
 * depth 4, 8, 12 ... The total work is fixed; the trees of every depth are divided among the threads.
 *
 * usage: bintrees [depth [threads]]
 * With -DUSE_MALLOC the same program with malloc and free.
 */
#include "peer.h"

typedef struct Node {
    struct Node *left, *right;
} Node;

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

static Node *build(int depth)
{
    Node *node = ALLOCATE(sizeof(Node));
    if (depth > 0) {
        node->left = build(depth - 1);
        node->right = build(depth - 1);
    } else {
        node->left = node->right = 0;
    }
    return node;
}

static long count(Node *node)
{
    return node->left ? 1 + count(node->left) + count(node->right) : 1;
}

static int threads, max_depth;
static long sums[MAX_THREADS];

static void *short_lived(void *argument)
{
    long id = (long)argument, sum = 0;
    for (int depth = 4; depth <= max_depth; depth += 4) {
        long trees = 1L << (max_depth - depth + 4);
        for (long i = id; i < trees; i += threads) {
            Node *tree = build(depth);
            sum += count(tree);
            free_tree(tree);
        }
    }
    sums[id] = sum;
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t handles[MAX_THREADS];
    max_depth = argc > 1 ? atoi(argv[1]) : 18;
    threads = argc > 2 ? atoi(argv[2]) : 1;
    usage_unless(max_depth >= 4 && max_depth <= 30 && threads >= 1 && threads <= MAX_THREADS,
                 "bintrees [depth [threads]]");
    init_program();
    uint64_t start = now_ns();
    Node *stretch = build(max_depth + 1);
    long sum = count(stretch);
    free_tree(stretch);
    stretch = 0;
    Node *long_lived = build(max_depth);
    if (threads == 1) {
        short_lived(0);
    } else {
        for (long i = 0; i < threads; i++)
            pthread_create(&handles[i], 0, short_lived, (void *)i);
        for (int i = 0; i < threads; i++)
            pthread_join(handles[i], 0);
    }
    for (int i = 0; i < threads; i++)
        sum += sums[i];
    sum += count(long_lived);
    printf("program=bintrees depth=%d threads=%d wall_ms=%.2f cpu_s=%.3f peak_rss_mb=%.1f collections=%lu worst_pause_ms=%.3f check=%ld\n",
           max_depth, threads, (now_ns() - start) / 1e6, cpu_s(), peak_rss_mb(), collections(), worst_pause_ms(), sum);
    return 0;
}
