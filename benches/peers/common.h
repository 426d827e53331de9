/*
 * Code shared by all programs here: clocks, order statistics, peak memory, and the protocol by which the comparison
 * runs our program, the peer and the bare limit in turns.
 *
 * Rounds. With "serve" as its last argument a program initializes, prints "ready", and then runs one round for
 * each line of standard input, and prints one line of key=value pairs for it; it exits at the end of its
 * input. Between rounds it must not use CPU time, because another program is being measured. Without "serve" it
 * runs one round and exits.
 */
#ifndef COMMON_H
#define COMMON_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 1024

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Returns the CPU time of the whole process, in seconds. */
static inline double cpu_s(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_utime.tv_sec + r.ru_utime.tv_usec / 1e6 + r.ru_stime.tv_sec + r.ru_stime.tv_usec / 1e6;
}

static inline double peak_rss_mb(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kb = -1;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1)
            break;
    if (status)
        fclose(status);
    return kb / 1024.0;
}

static inline int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts the samples, as percentile() requires. */
static inline void sort_samples(uint64_t *samples, size_t n)
{
    qsort(samples, n, sizeof *samples, compare_u64);
}

static inline uint64_t percentile(const uint64_t *sorted, size_t n, double p)
{
    return n ? sorted[(size_t)(p * (n - 1) + 0.5)] : 0;
}

static inline uint64_t xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int serving, rounds_begun;

/* Removes "serve" from the end of the arguments. */
static inline void serve_or_once(int *argc, char **argv)
{
    serving = *argc > 1 && !strcmp(argv[*argc - 1], "serve");
    if (serving)
        --*argc;
}

/* Waits for the request to begin a round. Returns 0 if there are no more rounds. */
static inline int next_round(void)
{
    char line[64];
    if (!serving)
        return rounds_begun++ == 0;
    if (rounds_begun++ == 0)
        puts("ready");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}

static inline void usage_unless(int holds, const char *usage)
{
    if (!holds) {
        fprintf(stderr, "usage: %s [serve]\n", usage);
        exit(2);
    }
}

#endif
