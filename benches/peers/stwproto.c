/*
 * The bare limit of stopping and restarting: signals and futexes without a collector.
 *
 * usage: stwproto threads busy|sleep|read rounds protocol [serve]
 *   bare       a counter tracks the threads that have not stopped yet, and the last one wakes the collector's futex;
 *              every thread waits on its own futex word, the restart wakes each, and threads do not acknowledge the
 *              restart (as stopworld does)
 *   sigsig     a semaphore counts the stopped threads; they sigsuspend until a restart signal; no acknowledgement
 *   sigack     the same, and the restart waits for an acknowledgement from each thread (as bdwgc does)
 *   sem        semaphores in both directions: one for the acknowledgements, one per thread for the restart
 *   broadcast  as bare, but all threads wait on one futex word, which the restart wakes
 * last_running_us: from the restart until the last thread left its handler.
 */
#include "common.h"
#include "threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

enum protocol { BARE, SIGSIG, SIGACK, SEM, BROADCAST };

static struct stopped_thread {
    _Alignas(128) pid_t tid;
    void *stack_pointer;
    _Atomic unsigned last_stop; /* the generation of the last stop it acknowledged */
    _Atomic unsigned go;        /* bare: the latest generation that may resume */
    sem_t wake;
    _Atomic uint64_t left_handler;
} stopped[MAX_THREADS];

static enum protocol protocol;
static __thread struct stopped_thread *self;
static sem_t answers;
static _Atomic unsigned outstanding, generation, restarted;
static sigset_t only_restart;

static void futex_wait(_Atomic unsigned *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, 0, 0, 0);
}

static void futex_wake(_Atomic unsigned *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0);
}

static void answer_by_counter(void)
{
    if (atomic_fetch_sub(&outstanding, 1) == 1)
        futex_wake(&outstanding, 1);
}

static void wait_for_counter(void)
{
    unsigned n;
    while ((n = atomic_load(&outstanding)) != 0)
        futex_wait(&outstanding, n);
}

static void sem_wait_surely(sem_t *semaphore)
{
    while (sem_wait(semaphore) && errno == EINTR)
        ;
}

static void on_suspend(int signal)
{
    int saved_errno = errno;
    unsigned stop = atomic_load(&generation), seen;
    (void)signal;
    if (atomic_load(&self->last_stop) != stop) {
        self->stack_pointer = __builtin_frame_address(0);
        atomic_store(&self->last_stop, stop);
        switch (protocol) {
        case BARE:
            answer_by_counter();
            while ((seen = atomic_load(&self->go)) != stop)
                futex_wait(&self->go, seen);
            break;
        case SIGSIG:
        case SIGACK:
            sem_post(&answers);
            do
                sigsuspend(&only_restart);
            while (atomic_load(&restarted) != stop);
            if (protocol == SIGACK)
                sem_post(&answers);
            break;
        case SEM:
            sem_post(&answers);
            sem_wait_surely(&self->wake);
            break;
        case BROADCAST:
            answer_by_counter();
            while ((seen = atomic_load(&restarted)) != stop)
                futex_wait(&restarted, seen);
            break;
        }
        atomic_store(&self->left_handler, now_ns());
    }
    errno = saved_errno;
}

static void on_restart(int signal)
{
    (void)signal;
}

static void signal_all(int threads, int signal)
{
    pid_t process = getpid();
    for (int i = 0; i < threads; i++)
        syscall(SYS_tgkill, process, stopped[i].tid, signal);
}

static void stop(int threads)
{
    atomic_store(&outstanding, threads);
    atomic_store(&generation, atomic_load(&generation) + 1);
    signal_all(threads, SIGPWR);
    if (protocol == BARE || protocol == BROADCAST)
        wait_for_counter();
    else
        for (int i = 0; i < threads; i++)
            sem_wait_surely(&answers);
}

static void restart(int threads)
{
    unsigned stop = atomic_load(&generation);
    atomic_store(&restarted, stop);
    switch (protocol) {
    case BARE:
        for (int i = 0; i < threads; i++) {
            atomic_store(&stopped[i].go, stop);
            futex_wake(&stopped[i].go, 1);
        }
        break;
    case SIGSIG:
        signal_all(threads, SIGXCPU);
        break;
    case SIGACK:
        signal_all(threads, SIGXCPU);
        for (int i = 0; i < threads; i++)
            sem_wait_surely(&answers);
        break;
    case SEM:
        for (int i = 0; i < threads; i++)
            sem_post(&stopped[i].wake);
        break;
    case BROADCAST:
        futex_wake(&restarted, INT_MAX);
        break;
    }
}

/* Waits until every thread has left its handler. Returns the time when the last one left. */
static uint64_t wait_until_all_left(int threads, uint64_t since)
{
    uint64_t last = 0, left;
    for (int i = 0; i < threads; i++) {
        while ((left = atomic_load(&stopped[i].left_handler)) < since)
            usleep(200);
        if (left > last)
            last = left;
    }
    return last;
}

static void *mutator(void *argument)
{
    struct spinner *spinner = argument;
    self = &stopped[spinner - spinners];
    sem_init(&self->wake, 0, 0);
    self->tid = gettid();
    thread_is_ready();
    if (mode == MODE_BUSY)
        run_in_rounds(spinner, NULL);
    else if (mode == MODE_SLEEP)
        sleep_for_ever();
    else
        wait_in_read();
    return 0;
}

static void install_handlers(void)
{
    struct sigaction action = {.sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    action.sa_handler = on_suspend;
    sigaction(SIGPWR, &action, 0);
    action.sa_handler = on_restart;
    sigaction(SIGXCPU, &action, 0);
    sigfillset(&only_restart);
    sigdelset(&only_restart, SIGXCPU);
}

static int protocol_from(const char *name)
{
    static const char *const names[] = {"bare", "sigsig", "sigack", "sem", "broadcast"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            protocol = i;
            return 1;
        }
    return 0;
}

int main(int argc, char **argv)
{
    const char *usage = "stwproto threads busy|sleep|read rounds bare|sigsig|sigack|sem|broadcast";
    serve_or_once(&argc, argv);
    usage_unless(argc == 5, usage);
    int threads = atoi(argv[1]), rounds = atoi(argv[3]);
    usage_unless(threads >= 1 && threads <= MAX_THREADS && mode_from(argv[2]) && mode <= MODE_READ && rounds >= 1 &&
                     protocol_from(argv[4]),
                 usage);
    uint64_t *stops = calloc(rounds, sizeof *stops), *restarts = calloc(rounds, sizeof *restarts),
             *lasts = calloc(rounds, sizeof *lasts);
    sem_init(&answers, 0, 0);
    install_handlers();
    start_threads(threads, mutator);
    while (next_round()) {
        let_them_run(threads);
        for (int i = -1; i < rounds; i++) {
            uint64_t start = now_ns();
            stop(threads);
            uint64_t stopped_at = now_ns();
            restart(threads);
            uint64_t restarted_at = now_ns();
            uint64_t last = wait_until_all_left(threads, stopped_at);
            if (i >= 0) {
                stops[i] = stopped_at - start;
                restarts[i] = restarted_at - stopped_at;
                lasts[i] = last - stopped_at;
            }
            usleep(2000);
            wait_until_all_ran(threads);
        }
        make_them_rest(threads);
        sort_samples(stops, rounds);
        sort_samples(restarts, rounds);
        sort_samples(lasts, rounds);
        printf("program=stwproto protocol=%s threads=%d mode=%s n=%d stop_us=%.2f stop_p99_us=%.2f restart_us=%.2f "
               "restart_p99_us=%.2f last_running_us=%.2f\n",
               argv[4], threads, argv[2], rounds, percentile(stops, rounds, .5) / 1e3,
               percentile(stops, rounds, .99) / 1e3, percentile(restarts, rounds, .5) / 1e3,
               percentile(restarts, rounds, .99) / 1e3, percentile(lasts, rounds, .5) / 1e3);
    }
    fflush(stdout);
    _exit(0); /* the threads never end by themselves */
}
