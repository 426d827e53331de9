/* The heap is used where libc holds its locks: by a callback of dl_iterate_phdr, by handlers of fork, in the child of a fork. */
#define _GNU_SOURCE
#include "libgc.h"
#include <link.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int over;
static int handled;

static int callback(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    uintptr_t *kept = list(10);
    GC_gcollect();
    churn();
    CHECK(is_whole_list(kept, 10));
    return 1;
}

static void handler(void) {
    handled++;
    for (int round = 0; round < 1000; round++) CHECK(GC_malloc_atomic(100));
}

static void *allocate(void *argument) {
    while (!atomic_load(&over)) churn();
    return argument;
}

static void *iterate(void *argument) {
    while (!atomic_load(&over)) dl_iterate_phdr(callback, NULL);
    return argument;
}

int main(void) {
    /* Before the library's own handlers: called last before the fork. */
    pthread_atfork(NULL, handler, handler);
    GC_init();
    uintptr_t *kept = list(11);
    pthread_t threads[3];
    CHECK(GC_pthread_create(&threads[0], NULL, allocate, NULL) == 0);
    CHECK(GC_pthread_create(&threads[1], NULL, iterate, NULL) == 0);
    CHECK(pthread_create(&threads[2], NULL, iterate, NULL) == 0);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(30);
            GC_gcollect();
            churn();
            _exit(is_whole_list(kept, 11) && handled > 0 ? 0 : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        churn();
    }
    atomic_store(&over, 1);
    for (int number = 0; number < 3; number++) CHECK(pthread_join(threads[number], NULL) == 0);
    CHECK(is_whole_list(kept, 11));
    return 0;
}
