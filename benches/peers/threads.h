/*
 * The threads to be stopped, the same for the peer (stw.c) and for the bare loop (stwproto.c).
 */
#ifndef THREADS_H
#define THREADS_H

#include "common.h"

enum mode { MODE_BUSY, MODE_SLEEP, MODE_READ, MODE_BLOCKING, MODE_ALLOC };

/* The step count of a running thread, on a separate cache line, so that other threads can see that it runs. */
struct spinner {
    _Alignas(128) _Atomic uint64_t steps;
};

static struct spinner spinners[MAX_THREADS];
static enum mode mode;
static int silent_pipe[2];
static _Atomic int ready, resting, running;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER;

static inline int mode_from(const char *name)
{
    static const char *const names[] = {"busy", "sleep", "read", "blocking", "alloc"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            mode = i;
            return 1;
        }
    return 0;
}

static inline int threads_run(void)
{
    return mode == MODE_BUSY || mode == MODE_ALLOC;
}

static inline void thread_is_ready(void)
{
    atomic_fetch_add(&ready, 1);
}

static inline void wait_in_read(void)
{
    char c;
    while (read(silent_pipe[0], &c, 1) != 1)
        ;
}

static inline void sleep_for_ever(void)
{
    for (;;) {
        struct timespec t = {0, 200000000};
        nanosleep(&t, 0);
    }
}

/* Runs `step` repeatedly during a round, and waits at the gate between rounds. */
static inline void run_in_rounds(struct spinner *self, void (*step)(void))
{
    for (;;) {
        pthread_mutex_lock(&gate_lock);
        atomic_fetch_add(&resting, 1);
        while (!atomic_load(&running))
            pthread_cond_wait(&gate, &gate_lock);
        atomic_fetch_sub(&resting, 1);
        pthread_mutex_unlock(&gate_lock);
        while (atomic_load_explicit(&running, memory_order_relaxed)) {
            if (step)
                step();
            uint64_t steps = atomic_load_explicit(&self->steps, memory_order_relaxed);
            atomic_store_explicit(&self->steps, steps + 1, memory_order_relaxed);
        }
    }
}

static inline void start_threads(int threads, void *(*body)(void *))
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    if (pipe(silent_pipe)) {
        perror("pipe");
        exit(1);
    }
    for (long i = 0; i < threads; i++) {
        pthread_t handle;
        if (pthread_create(&handle, &attributes, body, &spinners[i])) {
            perror("pthread_create");
            exit(1);
        }
    }
    while (atomic_load(&ready) < threads || (threads_run() && atomic_load(&resting) < threads))
        usleep(1000);
    usleep(50000); /* time for the last thread to enter its system call */
}

/* Waits until every running thread has made another step. */
static inline void wait_until_all_ran(int threads)
{
    uint64_t before[MAX_THREADS];
    if (!threads_run())
        return;
    for (int i = 0; i < threads; i++)
        before[i] = atomic_load_explicit(&spinners[i].steps, memory_order_relaxed);
    for (int i = 0; i < threads; i++)
        while (atomic_load_explicit(&spinners[i].steps, memory_order_relaxed) == before[i])
            usleep(200);
}

static inline void let_them_run(int threads)
{
    if (!threads_run())
        return;
    pthread_mutex_lock(&gate_lock);
    atomic_store(&running, 1);
    pthread_cond_broadcast(&gate);
    pthread_mutex_unlock(&gate_lock);
    wait_until_all_ran(threads);
}

static inline void make_them_rest(int threads)
{
    if (!threads_run())
        return;
    atomic_store(&running, 0);
    while (atomic_load(&resting) < threads)
        usleep(200);
}

#endif
