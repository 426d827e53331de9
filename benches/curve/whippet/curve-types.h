/* The objects of the programs for whippet. Each has a header word, as collectors that copy need. */
#ifndef CURVE_TYPES_H
#define CURVE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define FOR_EACH_HEAP_OBJECT_KIND(M) \
    M(pair, Pair, PAIR)              \
    M(node, Node, NODE)              \
    M(doubles, Doubles, DOUBLES)

/* From whippet: declares the types, and an enum of their kinds. */
#include "heap-objects.h"
#include "simple-tagging-scheme.h"

struct Pair {
    struct gc_header header;
    Pair *left, *right;
};

struct Node {
    struct gc_header header;
    Node *left, *right;
    int i, j;
};

struct Doubles {
    struct gc_header header;
    size_t length;
    double values[];
};

#endif
