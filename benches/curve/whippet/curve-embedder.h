/* What whippet must know of the objects: their sizes and references. */
#ifndef CURVE_EMBEDDER_H
#define CURVE_EMBEDDER_H

#include "curve-types.h"
#include "gc-config.h"

struct gc_heap;

#define VISITOR void (*visit)(struct gc_edge, struct gc_heap *, void *), struct gc_heap *heap, void *data

static inline size_t pair_size(Pair *pair)
{
    return sizeof *pair;
}

static inline size_t node_size(Node *node)
{
    return sizeof *node;
}

static inline size_t doubles_size(Doubles *doubles)
{
    return sizeof *doubles + doubles->length * sizeof *doubles->values;
}

static inline void visit_pair_fields(Pair *pair, VISITOR)
{
    visit(gc_edge(&pair->left), heap, data);
    visit(gc_edge(&pair->right), heap, data);
}

static inline void visit_node_fields(Node *node, VISITOR)
{
    visit(gc_edge(&node->left), heap, data);
    visit(gc_edge(&node->right), heap, data);
}

static inline void visit_doubles_fields(Doubles *doubles, VISITOR)
{
    (void)doubles, (void)visit, (void)heap, (void)data;
}

/* From whippet: everything else, by means of the functions above. */
#include "simple-gc-embedder.h"

#endif
