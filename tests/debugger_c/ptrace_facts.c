/* Checks the statements of docs/debugger-contract.md about ptrace on the running kernel. Each fact is a function; the program exits with
 * 1 at the first that does not hold. No part of stopworld is needed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PTRACE_SETSIGMASK
#define PTRACE_SETSIGMASK 0x420b
#endif

#define EVENT(status) ((unsigned)(status) >> 16)

static volatile int *shared; /* 0: runs of the handler; 1: set by the running tracee; 2: failed calls of clone */

static void must(int holds, const char *fact) {
    if (!holds) {
        printf("does not hold: %s (errno %s)\n", fact, strerror(errno));
        exit(1);
    }
}

static void count(int signal) {
    (void)signal;
    shared[0]++;
}

/* A child that spins, and counts SIGUSR1. */
static pid_t spinner(void) {
    shared[0] = shared[1] = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGUSR1, count);
        shared[1] = 1;
        for (;;)
            syscall(SYS_getppid);
    }
    while (!shared[1])
        usleep(100);
    return child;
}

static int next_stop(pid_t tid) {
    int status = 0;
    must(waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status), "a thread stops");
    return status;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    while (waitpid(-1, 0, __WALL) > 0)
        ;
}

static struct user_regs_struct registers(pid_t tid) {
    struct user_regs_struct r;
    must(ptrace(PTRACE_GETREGS, tid, 0, &r) == 0, "registers are read");
    return r;
}

/* An interruption requested while the thread is stopped always arrives: before the next instruction. */
static void an_interruption_of_a_stopped_thread_comes(void) {
    pid_t child = spinner();
    must(ptrace(PTRACE_SEIZE, child, 0, 0) == 0, "a child is seized");
    for (int i = 0; i < 200; i++) {
        kill(child, SIGUSR1);
        int status = next_stop(child);
        must(EVENT(status) == 0 && WSTOPSIG(status) == SIGUSR1, "a signal is reported");
        struct user_regs_struct before = registers(child);
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        ptrace(PTRACE_CONT, child, 0, SIGUSR1);
        status = next_stop(child);
        must(EVENT(status) == PTRACE_EVENT_STOP, "an interruption of a stopped thread arrives");
        struct user_regs_struct after = registers(child);
        must(shared[0] == i && after.rip == (unsigned long)count && after.rsp < before.rsp,
             "the thread stops at the first instruction of the signal's handler");
        ptrace(PTRACE_CONT, child, 0, 0);
        while (shared[0] == i)
            usleep(10);
    }
    end(child);
}

/* How a tracer leaves a thread that reported SIGUSR1, before the tracer dies. */
struct manner {
    int waited; /* it has waited for the stop */
    int masked; /* it has blocked all signals of the thread */
    int moved;  /* it has moved the thread to the border of user mode, into the handler, and from there elsewhere */
};

static void spin(void) {
    for (;;)
        ;
}

static void leave_and_wait_for_death(pid_t child, struct manner manner, int ready) {
    siginfo_t info;
    struct user_regs_struct r;
    unsigned long all = ~0ul;
    int status;
    ptrace(PTRACE_SEIZE, child, 0, 0);
    kill(child, SIGUSR1);
    waitid(P_PID, (id_t)child, &info, WSTOPPED | WEXITED | __WALL | (manner.waited ? 0 : WNOWAIT));
    if (manner.moved) {
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        ptrace(PTRACE_CONT, child, 0, SIGUSR1);
        waitpid(child, &status, __WALL);
        ptrace(PTRACE_GETREGS, child, 0, &r);
        r.rip = (unsigned long)spin;
        ptrace(PTRACE_SETREGS, child, 0, &r);
    }
    if (manner.masked)
        ptrace(PTRACE_SETSIGMASK, child, 8, &all);
    if (write(ready, "x", 1) == 1)
        pause();
    _exit(1);
}

/* Whether SIGUSR1 is pending for the process. */
static int is_pending(pid_t child) {
    char path[64], line[256];
    unsigned long mask, pending = 0;
    snprintf(path, sizeof path, "/proc/%d/status", child);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "SigPnd: %lx", &mask) == 1 || sscanf(line, "ShdPnd: %lx", &mask) == 1)
            pending |= mask;
    if (status)
        fclose(status);
    return pending >> (SIGUSR1 - 1) & 1;
}

/* What happens at a tracer's death to the signal of a signal-delivery stop: whether its handler runs, and whether it is pending. */
static void a_tracers_death(struct manner manner, int runs, int stays_pending, const char *fact) {
    pid_t child = spinner();
    int ready[2];
    char byte;
    must(pipe(ready) == 0, "a pipe");
    pid_t tracer = fork();
    if (tracer == 0)
        leave_and_wait_for_death(child, manner, ready[1]);
    must(read(ready[0], &byte, 1) == 1 && shared[0] == 0, "the tracer has stopped the child before the handler");
    kill(tracer, SIGKILL);
    waitpid(tracer, 0, 0);
    for (int i = 0; runs && shared[0] == 0 && i < 100000; i++)
        usleep(100);
    usleep(20000);
    must(shared[0] == runs && is_pending(child) == stays_pending, fact);
    close(ready[0]);
    close(ready[1]);
    end(child);
}

static void a_signal_at_a_tracers_death(void) {
    a_tracers_death((struct manner){0, 0, 0}, 1, 0, "a signal that was not waited for is delivered by the tracer's death");
    a_tracers_death((struct manner){0, 1, 0}, 0, 1, "a blocked signal that was not waited for stays pending at the tracer's death");
    a_tracers_death((struct manner){1, 0, 0}, 0, 0, "a signal that was waited for is forgotten at the tracer's death");
    a_tracers_death((struct manner){1, 1, 0}, 0, 0, "a blocked signal that was waited for is forgotten at the tracer's death");
    a_tracers_death((struct manner){1, 1, 1}, 0, 0, "a thread that was moved into its handler can be redirected before the handler has begun");
}

static char stack[64 << 10];

static int nothing(void *unused) {
    (void)unused;
    return 0;
}

/* A child that creates threads, one after the other, and counts the calls that fail. */
static pid_t mother(void) {
    shared[1] = shared[2] = 0;
    pid_t child = fork();
    if (child == 0) {
        const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        shared[1] = 1;
        for (;;) {
            shared[2] += clone(nothing, stack + sizeof stack, flags, 0) < 0;
            usleep(300);
        }
    }
    while (!shared[1])
        usleep(100);
    must(ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACECLONE) == 0, "a child is seized");
    return child;
}

/* The creating thread's next stop; the threads that it created run on. 0: none within `within` microseconds. */
static int stop_of_the_mother(pid_t child, int within) {
    for (int waited = 0;; waited += 50) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
        if (tid == child)
            return status;
        if (tid > 0 && WIFSTOPPED(status))
            ptrace(PTRACE_CONT, tid, 0, 0);
        else if (tid <= 0 && waited > within)
            return 0;
        else if (tid <= 0)
            usleep(50);
    }
}

/* Any other stop, here one for an event, cancels an interruption that was requested before. */
static void any_stop_cancels_an_interruption(void) {
    pid_t child = mother();
    int cancelled = 0, events = 0;
    for (int i = 0; i < 50000 && cancelled == 0; i++) {
        usleep(rand() % 100);
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        int status = stop_of_the_mother(child, 1000000);
        if (EVENT(status) == PTRACE_EVENT_CLONE) {
            events++;
            ptrace(PTRACE_CONT, child, 0, 0);
            cancelled += EVENT(stop_of_the_mother(child, 1000000)) == PTRACE_EVENT_CLONE;
        }
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    printf("%d interruptions met another stop; %d of them were cancelled\n", events, cancelled);
    must(cancelled > 0, "any stop cancels an interruption that was requested before");
    end(child);
}

/* At PTRACE_EVENT_CLONE the call has no result yet. */
static void a_clone_event_is_in_the_middle_of_the_call(void) {
    pid_t child = mother();
    for (int i = 0; i < 50;) {
        int status = stop_of_the_mother(child, 1000000);
        if (EVENT(status) == PTRACE_EVENT_CLONE) {
            unsigned long born = 0;
            ptrace(PTRACE_GETEVENTMSG, child, 0, &born);
            struct user_regs_struct r = registers(child);
            must((long)r.rax == -ENOSYS && r.orig_rax == SYS_clone, "at PTRACE_EVENT_CLONE rax is -ENOSYS");
            ptrace(PTRACE_INTERRUPT, child, 0, 0);
            ptrace(PTRACE_CONT, child, 0, 0);
            status = stop_of_the_mother(child, 1000000);
            must(EVENT(status) == PTRACE_EVENT_STOP, "the thread stops again");
            r = registers(child);
            must(r.rax == born, "after the event rax is the result");
            i++;
        }
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    must(shared[2] == 0, "no clone fails");
    end(child);
}

/* Offset 464 of the NT_X86_XSTATE image contains the components that the kernel manages. */
static void the_image_has_its_components(void) {
    pid_t child = spinner();
    must(ptrace(PTRACE_SEIZE, child, 0, 0) == 0, "a child is seized");
    ptrace(PTRACE_INTERRUPT, child, 0, 0);
    next_stop(child);
    static unsigned char image[64 << 10];
    struct iovec piece = {image, sizeof image};
    must(ptrace(PTRACE_GETREGSET, child, 0x202, &piece) == 0, "the extended state is read");
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    unsigned long features;
    memcpy(&features, image + 464, 8);
    printf("extended state: %zu bytes, components %#lx, xgetbv %#lx\n", piece.iov_len, features, (unsigned long)high << 32 | low);
    must(features == ((unsigned long)high << 32 | low), "the image has XCR0 at 464");
    end(child);
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED, "a page");
    any_stop_cancels_an_interruption();
    an_interruption_of_a_stopped_thread_comes();
    a_signal_at_a_tracers_death();
    a_clone_event_is_in_the_middle_of_the_call();
    the_image_has_its_components();
    puts("all facts hold");
    return 0;
}
