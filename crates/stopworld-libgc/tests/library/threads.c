/* Threads that the library knows, threads that it finds when they allocate, and threads that end while they are attached. */
#include "libgc.h"
#include <stdatomic.h>
#include <unistd.h>

static atomic_int over;
static pthread_key_t key;

/* Nothing but the argument of the thread has the pointer, then nothing but its result. */
static void *pass(void *argument) {
    CHECK(GC_thread_is_registered());
    churn();
    CHECK(is_whole_list(argument, 3));
    return argument;
}

static void *leave(void *argument) {
    GC_pthread_exit(argument);
    return NULL;
}

/* A destructor that uses the heap, after the thread was detached. */
static void destroy(void *value) {
    (void)value;
    uintptr_t *kept = list(4);
    churn();
    CHECK(is_whole_list(kept, 4));
}

/* Not registered: the first allocation attaches the thread. */
static void *unknown(void *argument) {
    CHECK(!GC_thread_is_registered());
    CHECK(pthread_setspecific(key, &key) == 0);
    uintptr_t *kept = list(5);
    for (int round = 0; round < 3; round++) churn();
    CHECK(is_whole_list(kept, 5));
    return argument;
}

static void *explicit(void *argument) {
    struct GC_stack_base base;
    CHECK(GC_get_stack_base(&base) == 0);
    CHECK(GC_register_my_thread(&base) == 0 && GC_register_my_thread(&base) == 1);
    uintptr_t *kept = list(6);
    churn();
    CHECK(is_whole_list(kept, 6) && GC_thread_is_registered());
    CHECK(GC_unregister_my_thread() == 0 && !GC_thread_is_registered());
    return argument;
}

/* The signal that stops threads cannot be blocked by this function. */
static void *mask(void *argument) {
    sigset_t all, now;
    sigfillset(&all);
    CHECK(GC_pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    CHECK(!sigismember(&now, GC_get_suspend_signal()) && sigismember(&now, SIGUSR1));
    return argument;
}

static void *collect(void *argument) {
    while (!atomic_load(&over)) GC_gcollect();
    return argument;
}

int main(void) {
    GC_init();
    CHECK(pthread_key_create(&key, destroy) == 0);
    pthread_t collector, thread[4];
    CHECK(pthread_create(&collector, NULL, collect, NULL) == 0);
    for (int round = 0; round < 25; round++) {
        void *results[4];
        CHECK(GC_pthread_create(&thread[0], NULL, pass, list(3)) == 0);
        CHECK(pthread_create(&thread[1], NULL, unknown, NULL) == 0);
        CHECK(pthread_create(&thread[2], NULL, explicit, NULL) == 0);
        CHECK(GC_pthread_create(&thread[3], NULL, leave, list(7)) == 0);
        churn();
        for (int number = 0; number < 4; number++) CHECK(GC_pthread_join(thread[number], &results[number]) == 0);
        CHECK(is_whole_list(results[0], 3) && is_whole_list(results[3], 7));
    }
    CHECK(GC_pthread_create(&thread[0], NULL, mask, NULL) == 0 && GC_pthread_join(thread[0], NULL) == 0);
    atomic_store(&over, 1);
    CHECK(pthread_join(collector, NULL) == 0);
    return 0;
}
