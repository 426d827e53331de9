/*
 * The peers use libgc's public interface only, so that any collector with the same interface can be swapped in
 * (LD_LIBRARY_PATH, or make PREFIX=...).
 */
#ifndef PEER_H
#define PEER_H

#include "common.h"

#define GC_THREADS
#include <gc.h>

#endif
