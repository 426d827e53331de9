/* A debugger for programs that use stopworld, written from docs/debugger-contract.md and stopworld-debugger.h. It shows how to keep
 * the contract; it has no prompt, and its user holds threads at random.
 *
 *     debugger [OPTION VALUE]... attach PID
 *     debugger [OPTION VALUE]... launch PROGRAM [ARGUMENT]...
 *
 *     --mode full|assisted    the contract (full)
 *     --milliseconds N        detaches after that time (1000)
 *     --seed N                for the user's holds
 *     --holds N               the user begins or ends a hold every N ms; 0: never (0)
 *     --save-area 1           registers go to the save area, as if there was no room on the stacks
 *     --die-at N              kills itself at the Nth step of the protocol
 *
 * At the end it prints its counters as words and numbers. The section numbers in comments are the document's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stopworld-debugger.h"

#ifndef PTRACE_GETSIGMASK
#define PTRACE_GETSIGMASK 0x420a
#define PTRACE_SETSIGMASK 0x420b
#endif
#define XSTATE 0x202
#define RED_ZONE 128
#define FRAME_BYTES 440
#define ROOM_FOR_PARK (16 << 10)
#define MOST_THREADS 4096
#define MOST_RECORDS 100000
#define STOP_WITHIN 5.0

typedef uint64_t word;
typedef struct user_regs_struct registers;

/* One thread of the process. */
struct thread {
    pid_t tid;
    int stopped;
    int at_border;   /* stopped at PTRACE_EVENT_STOP: registers may be replaced */
    int group;       /* stopped in a group stop */
    int signal;      /* the signal to deliver when it resumes */
    int held;        /* held by the user */
    int answered;    /* acknowledged for in an assisted stop that has not ended */
    int in_world;    /* stopped for a full stop */
    word request;    /* the notification that it is stopped for */
    word record;     /* the record in which it was acknowledged for */
    int parked;      /* redirected to `park`; its state before that: */
    registers before;
    word mask;
};

static struct thread threads[MOST_THREADS];
static int count;
static pid_t pid;
static int memory = -1;
static word descriptor_at;
static stopworld_descriptor d;
static int full = 1, use_save_area, ended, exec_seen;
static pid_t collecting; /* the collecting thread of the full stop under way, or 0 */
static long steps, die_at;
static long stops, starts, again, answered, in_handler, frames, save_areas, parked_stops, clones, moved, births, holds, given_up;
static int unrelocated = -1;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (%s)\n", strerror(errno));
    exit(1);
}

/* A step of the protocol, at which a test may kill the debugger. */
static void step(void) {
    if (++steps == die_at)
        kill(getpid(), SIGKILL);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Access to the process's memory. */

static int try_read(word at, void *to, size_t size) {
    return pread(memory, to, size, (off_t)at) == (ssize_t)size;
}

static word get(word at) {
    word value = 0;
    if (!try_read(at, &value, 8) && !ended)
        errno = EFAULT;
    return value;
}

static uint32_t get32(word at) {
    uint32_t value = 0;
    try_read(at, &value, 4);
    return value;
}

static int put(word at, const void *from, size_t size) {
    return pwrite(memory, from, size, (off_t)at) == (ssize_t)size;
}

static void put_word(word at, word value) {
    put(at, &value, 8);
}

/* 1: finding the descriptor. */

static int is_sound(const stopworld_descriptor *found) {
    const word limit = 1 << 16;
    const word *offsets = &found->request.size, *end = (const word *)&found->calls;
    if (memcmp(found->magic, STOPWORLD_DEBUGGER_MAGIC, 8) != 0 || found->version != STOPWORLD_DEBUGGER_VERSION ||
        found->size < sizeof *found)
        return 0;
    for (; offsets < end; offsets++)
        if (*offsets > limit)
            return 0;
    return 1;
}

/* Searches the notes of one mapped file, whose mapping begins at `base`. */
static int look_through(const char *path, word base) {
    static unsigned char notes[1 << 16];
    Elf64_Ehdr header;
    Elf64_Phdr segments[64];
    word lowest = ~0ull;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    int found = 0;
    if (pread(file, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > 64 ||
        pread(file, segments, header.e_phnum * sizeof *segments, (off_t)header.e_phoff) != (ssize_t)(header.e_phnum * sizeof *segments))
        goto out;
    for (int i = 0; i < header.e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr - segments[i].p_offset < lowest)
            lowest = segments[i].p_vaddr - segments[i].p_offset;
    for (int i = 0; i < header.e_phnum && !found; i++) {
        word size = segments[i].p_filesz, align = segments[i].p_align < 4 ? 4 : segments[i].p_align;
        if (segments[i].p_type != PT_NOTE || size > sizeof notes || align > 8 ||
            pread(file, notes, size, (off_t)segments[i].p_offset) != (ssize_t)size)
            continue;
        for (word at = 0; at + 12 <= size;) {
            uint32_t name, contents, type;
            memcpy(&name, notes + at, 4), memcpy(&contents, notes + at + 4, 4), memcpy(&type, notes + at + 8, 4);
            word data = (at + 12 + name + align - 1) & ~(align - 1);
            if (data + contents > size)
                break;
            if (type == STOPWORLD_NOTE_TYPE && name == sizeof STOPWORLD_NOTE_NAME && contents == 8 &&
                memcmp(notes + at + 12, STOPWORLD_NOTE_NAME, name) == 0) {
                word here = base - lowest + segments[i].p_vaddr + data, distance;
                memcpy(&distance, notes + data, 8);
                stopworld_descriptor read;
                if (try_read(here + distance, &read, sizeof read) && is_sound(&read)) {
                    d = read, descriptor_at = here + distance, found = 1;
                    break;
                }
            }
            at = (data + contents + align - 1) & ~(align - 1);
        }
    }
out:
    close(file);
    return found;
}

static int find_descriptor(void) {
    char path[64], line[8192];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    int found = 0;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned long long low, offset;
        int at = 0;
        if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %n", &low, &offset, &at) == 2 && offset == 0 && at && line[at] == '/') {
            line[strcspn(line, "\n")] = 0;
            found = look_through(line + at, low);
        }
    }
    if (maps)
        fclose(maps);
    return found;
}

/* The signals and, in a launched program, the pointers become valid later than the descriptor. */
static void read_descriptor(void) {
    stopworld_descriptor read;
    if (try_read(descriptor_at, &read, sizeof read) && is_sound(&read))
        d = read;
}

static void write_control(word value) {
    put_word(descriptor_at + offsetof(stopworld_descriptor, control), value);
}

/* 2: threads. */

static struct thread *of(pid_t tid) {
    for (int i = 0; i < count; i++)
        if (threads[i].tid == tid)
            return &threads[i];
    return 0;
}

static struct thread *add(pid_t tid) {
    struct thread *t = of(tid);
    if (t)
        return t;
    if (count == MOST_THREADS)
        fail("more than %d threads", MOST_THREADS);
    t = &threads[count++];
    memset(t, 0, sizeof *t);
    t->tid = tid;
    t->in_world = collecting != 0;
    return t;
}

static void forget(pid_t tid) {
    struct thread *t = of(tid);
    if (t)
        *t = threads[--count];
}

static int is_ours(pid_t tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
    return access(path, F_OK) == 0;
}

/* A number in a thread's status in /proc; -1: there is no such thread. */
static int status_number(pid_t tid, const char *name) {
    char path[64], line[256];
    int number = -1;
    size_t length = strlen(name);
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    FILE *status = fopen(path, "re");
    while (status && number < 0 && fgets(line, sizeof line, status))
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            number = atoi(line + length + 1);
    if (status)
        fclose(status);
    return number;
}

/* Records one status reported by the kernel; 0: the thread has ended. */
static struct thread *note(pid_t tid, int status) {
    int signal = WSTOPSIG(status), event = status >> 16;
    unsigned long message = 0;
    if (!WIFSTOPPED(status)) {
        forget(tid);
        if (tid == pid)
            ended = 1;
        return 0;
    }
    if (!of(tid) && !is_ours(tid)) {
        /* It shares memory with the process, but is not one of its threads. */
        ptrace(PTRACE_DETACH, tid, 0, 0);
        return 0;
    }
    struct thread *t = add(tid);
    t->stopped = 1;
    t->at_border = event == PTRACE_EVENT_STOP;
    t->group = t->at_border && signal != SIGTRAP;
    t->signal = 0;
    if (event == PTRACE_EVENT_CLONE && ptrace(PTRACE_GETEVENTMSG, tid, 0, &message) == 0) {
        clones++;
        if (is_ours((pid_t)message))
            births++, add((pid_t)message);
    }
    if (event == PTRACE_EVENT_EXEC)
        exec_seen = 1;
    if (event == 0) {
        siginfo_t info;
        if (d.notify_signal == 0)
            read_descriptor();
        if ((uint32_t)signal == d.notify_signal && ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 && info.si_code == SI_QUEUE)
            t->request = (word)info.si_value.sival_ptr;
        else
            t->signal = signal;
    }
    return of(tid);
}

/* Waits up to `within` seconds for a status of this thread, or of any (-1). -1: none arrived. */
static pid_t take(pid_t tid, double within) {
    double until = now() + within;
    int status;
    for (int tries = 0;; tries++) {
        pid_t reported = waitpid(tid, &status, __WALL | WNOHANG);
        if (reported > 0) {
            note(reported, status);
            return reported;
        }
        if (reported < 0) {
            if (tid < 0)
                ended = 1;
            else
                forget(tid);
            return -1;
        }
        if (within == 0 || now() > until)
            return -1;
        if (tries > 100)
            usleep(50);
    }
}

static void resume(struct thread *t) {
    if (!t->stopped)
        return;
    t->stopped = 0;
    int signal = t->signal;
    t->signal = 0;
    ptrace(t->group ? PTRACE_LISTEN : PTRACE_CONT, t->tid, 0, (void *)(long)signal);
}

static void resume_unheld(struct thread *t) {
    if (!t->held && !t->answered && !t->in_world && !t->request && !t->parked)
        resume(t);
}

/* Moves a stopped thread to the border of user mode. */
static int move_to_border(pid_t tid) {
    for (;;) {
        struct thread *t = of(tid);
        if (!t || (t->stopped && t->at_border))
            return 1;
        moved += t->stopped;
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        if (t->stopped)
            resume(t);
        if (take(tid, STOP_WITHIN) < 0)
            return of(tid) == 0;
        step();
    }
}

/* Stops every thread but one at the border. 0: at least one cannot be stopped. */
static int stop_all_but(pid_t but) {
    for (;;) {
        pid_t running[MOST_THREADS];
        int n = 0;
        for (int i = 0; i < count; i++)
            if (threads[i].tid != but && !(threads[i].stopped && threads[i].at_border))
                running[n++] = threads[i].tid;
        if (n == 0)
            return 1;
        for (int i = 0; i < n; i++)
            if (!of(running[i])->stopped)
                ptrace(PTRACE_INTERRUPT, running[i], 0, 0);
        step();
        for (int i = 0; i < n; i++) {
            struct thread *t = of(running[i]);
            if (t && !t->stopped)
                take(running[i], STOP_WITHIN);
            if (!move_to_border(running[i]))
                return 0;
            step();
        }
    }
}

/* Registers. */

static int read_registers(pid_t tid, registers *r) {
    return ptrace(PTRACE_GETREGS, tid, 0, r) == 0;
}

static size_t read_xstate(pid_t tid, unsigned char *to, size_t room) {
    struct iovec piece = {to, room};
    return ptrace(PTRACE_GETREGSET, tid, XSTATE, &piece) == 0 ? piece.iov_len : 0;
}

static void to_bytes(unsigned char *to, word value, int size) {
    memcpy(to, &value, size);
}

/* 4: all registers into the record's save area. */
static int to_save_area(pid_t tid, word record, const registers *r) {
    static unsigned char bytes[sizeof *r + (64 << 10)];
    memcpy(bytes, r, sizeof *r);
    size_t size = sizeof *r + read_xstate(tid, bytes + sizeof *r, 64 << 10);
    uint32_t used = (uint32_t)size;
    if (size == sizeof *r || size > get(record + d.thread.save_area_size))
        return 0;
    return put(get(record + d.thread.save_area), bytes, size) && put(record + d.thread.save_area_used, &used, 4);
}

/* 4: whether the lowest signal frame above rsp is one of the suspend signal. */
static int is_in_suspend_handler(const registers *r) {
    static unsigned char stack[16 << 10];
    word low = ((r->rsp + 7) & ~15ull) + 8;
    ssize_t size = pread(memory, stack, sizeof stack, (off_t)low);
    for (word at = 0; (ssize_t)at + FRAME_BYTES <= size; at += 16) {
        word frame = low + at, sp, fpstate, mask;
        uint32_t signal;
        memcpy(&signal, stack + at + 312, 4);
        memcpy(&sp, stack + at + 168, 8);
        memcpy(&fpstate, stack + at + 232, 8);
        memcpy(&mask, stack + at + 304, 8);
        if (signal == 0 || signal > 64 || fpstate <= frame || fpstate >= sp || fpstate % 64 != 0 || sp - frame > (64 << 10))
            continue;
        return signal == d.suspend_signal && !(mask >> (signal - 1) & 1);
    }
    return 0;
}

/* 5: the frame. */
struct pushed {
    pid_t tid;
    registers before;
    word frame;
};

/* The registers that a signal handler of the thread would see after an interrupted system call. */
static registers after_the_call(registers r) {
    long rax = (long)r.rax;
    if ((long)r.orig_rax >= 0 && (rax == -512 || rax == -513 || rax == -514)) {
        r.rax = r.orig_rax;
        r.rip -= 2;
    } else if ((long)r.orig_rax >= 0 && rax == -516) {
        r.rax = (word)-EINTR;
    }
    return r;
}

/* Writes a thread's registers where the collector finds them. 1: in a frame; 0: in the save area; -1: the thread has ended. */
static int push(pid_t tid, word record, struct pushed *pushed) {
    static unsigned char bytes[FRAME_BYTES + 256 + (64 << 10)], image[64 << 10];
    registers *r = &pushed->before;
    if (!read_registers(tid, r))
        return -1;
    size_t size = read_xstate(tid, image, sizeof image);
    word low = get(record + d.thread.stack_low), high = get(record + d.thread.stack_high);
    word at = (r->rsp - RED_ZONE - size - 4) & ~63ull;
    word frame = ((at - FRAME_BYTES) & ~15ull) - 8;
    if (size < 576 || use_save_area || frame < low + ROOM_FOR_PARK || r->rsp > high) {
        save_areas++;
        put_word(record + d.thread.stack_ptr, r->rsp - RED_ZONE);
        return to_save_area(tid, record, r) ? 0 : -1;
    }
    registers seen = after_the_call(*r);
    word general[] = {seen.r8, seen.r9, seen.r10, seen.r11, seen.r12, seen.r13, seen.r14, seen.r15, seen.rdi, seen.rsi,
                      seen.rbp, seen.rbx, seen.rdx, seen.rax, seen.rcx, seen.rsp, seen.rip, seen.eflags};
    word features, mask = 0;
    ptrace(PTRACE_GETSIGMASK, tid, 8, &mask);
    memset(bytes, 0, at - frame);
    to_bytes(bytes + 8, 7, 8);
    to_bytes(bytes + 32, 4, 4);
    memcpy(bytes + 48, general, sizeof general);
    to_bytes(bytes + 192, (seen.cs & 0xffff) | (word)(seen.ss & 0xffff) << 48, 8);
    to_bytes(bytes + 232, at, 8);
    to_bytes(bytes + 304, mask, 8);
    memcpy(&features, image + 464, 8);
    memset(image + 464, 0, 48);
    to_bytes(image + 464, 0x46505853, 4);
    to_bytes(image + 468, size + 4, 4);
    to_bytes(image + 472, features, 8);
    to_bytes(image + 480, size, 4);
    memcpy(bytes + (at - frame), image, size);
    to_bytes(bytes + (at - frame) + size, 0x46505845, 4);
    if (!put(frame, bytes, at - frame + size + 4))
        return -1;
    put_word(record + d.thread.stack_ptr, frame);
    frames++;
    pushed->tid = tid;
    pushed->frame = frame;
    return 1;
}

static void send_to_park(const struct pushed *pushed) {
    struct thread *t = of(pushed->tid);
    registers r = pushed->before;
    word all = ~0ull;
    if (!t)
        return;
    t->before = r;
    ptrace(PTRACE_GETSIGMASK, t->tid, 8, &t->mask);
    t->parked = 1;
    ptrace(PTRACE_SETSIGMASK, t->tid, 8, &all);
    r.rip = d.park;
    r.rsp = pushed->frame;
    r.orig_rax = ~0ull;
    r.eflags &= ~0x400ull;
    ptrace(PTRACE_SETREGS, t->tid, 0, &r);
    step();
}

/* The records of a world's threads. */
static int records_of(word world, word *records) {
    int n = 0;
    for (word at = get(world + d.world.threads); at != 0 && n < MOST_THREADS; at = get(at + d.thread.next))
        records[n++] = at;
    return n;
}

static word place_of(word record) {
    return get(record + d.thread.state) & STOPWORLD_PLACE;
}

static void end_full_stop(void) {
    collecting = 0;
    for (int i = 0; i < count; i++) {
        struct thread *t = &threads[i];
        if (t->parked) {
            ptrace(PTRACE_SETREGS, t->tid, 0, &t->before);
            ptrace(PTRACE_SETSIGMASK, t->tid, 8, &t->mask);
            t->parked = 0;
            step();
        }
        t->in_world = 0;
    }
}

/* 5: STOP_WORLD. -1: the notification must not be acknowledged. */
static int stop_world(pid_t by, word world) {
    static word records[MOST_THREADS];
    static struct pushed pushed[MOST_THREADS];
    int frames_pushed = 0, all_park = 1;
    collecting = by;
    if (!stop_all_but(by)) {
        given_up++;
        end_full_stop();
        return -1;
    }
    step();
    for (int i = 0; i < count; i++)
        threads[i].in_world = threads[i].tid != by;
    for (int i = 0, n = records_of(world, records); i < n; i++) {
        pid_t tid = (pid_t)get32(records[i] + d.thread.tid);
        if (tid == by || !of(tid))
            continue;
        int is_running = place_of(records[i]) == STOPWORLD_THREAD_RUNNING;
        switch (push(tid, records[i], &pushed[frames_pushed])) {
        case 1:
            frames_pushed++;
            break;
        case 0:
            all_park &= !is_running;
        }
        step();
    }
    for (int i = 0; i < frames_pushed && all_park; i++)
        send_to_park(&pushed[i]);
    parked_stops += all_park;
    return all_park ? STOPWORLD_PARKED_ON_DEATH : 0;
}

/* 4: acknowledges for the threads that the user holds. */
static void answer(word world, word epoch) {
    static word records[MOST_THREADS];
    for (int i = 0, n = records_of(world, records); i < n; i++) {
        word record = records[i], mask = 0;
        struct thread *t = of((pid_t)get32(record + d.thread.tid));
        registers r;
        if (!t || !(t->held || t->answered) || !t->stopped || place_of(record) != STOPWORLD_THREAD_RUNNING || get(record + d.thread.frozen) == epoch ||
            !read_registers(t->tid, &r))
            continue;
        ptrace(PTRACE_GETSIGMASK, t->tid, 8, &mask);
        if (d.suspend_signal != 0 && mask >> (d.suspend_signal - 1) & 1) {
            if (!is_in_suspend_handler(&r))
                continue;
            in_handler++;
        }
        if (!to_save_area(t->tid, record, &r))
            continue;
        put_word(record + d.thread.stack_ptr, r.rsp - RED_ZONE);
        put_word(record + d.thread.frozen, epoch);
        t->answered = 1;
        t->record = record;
        answered++;
        step();
    }
}

/* Resumes the threads that the collection no longer holds. */
static void release_answered(void) {
    for (int i = 0; i < count; i++)
        if (threads[i].answered && !(get(threads[i].record + d.thread.state) & STOPWORLD_HELD_BY_COLLECTION)) {
            threads[i].answered = 0;
            resume_unheld(&threads[i]);
        }
}

/* 3: serves the notification for which a thread is stopped. */
static void serve(pid_t tid) {
    word request = of(tid)->request, sequence = get(request + d.request.sequence);
    uint32_t event = get32(request + d.request.event), detail = get32(request + d.request.detail);
    word world = get(request + d.request.world), epoch = get(request + d.request.epoch);
    char magic[8] = "";
    int result = 0;
    step();
    of(tid)->request = 0;
    if (!try_read(request, magic, 8) || memcmp(magic, STOPWORLD_REQUEST_MAGIC, 8) != 0)
        result = -1;
    else if (event == STOPWORLD_STOP_WORLD && detail == STOPWORLD_CONTROL_FULL)
        stops++, result = stop_world(tid, world);
    else if (event == STOPWORLD_STOP_WORLD)
        stops++, answer(world, epoch);
    else if (event == STOPWORLD_AGAIN)
        again++, answer(world, epoch);
    else if (event == STOPWORLD_START_WORLD) {
        starts++;
        if (detail == STOPWORLD_CONTROL_FULL)
            end_full_stop();
        else
            release_answered();
    }
    step();
    if (result >= 0) {
        put_word(request + d.request.answer, (word)result);
        put_word(request + d.request.acknowledged, sequence);
    }
    step();
    if (of(tid))
        resume_unheld(of(tid));
    if (result < 0 || event == STOPWORLD_START_WORLD)
        for (int i = 0; i < count; i++)
            resume_unheld(&threads[i]);
    step();
}

/* Serves a thread that waits for it, if no stop prevents that. */
static int serve_one(void) {
    for (int i = 0; i < count; i++) {
        struct thread *t = &threads[i];
        if (t->stopped && t->request && !t->held && !t->answered && (collecting == 0 || collecting == t->tid)) {
            serve(t->tid);
            return 1;
        }
    }
    return 0;
}

/* The actions of the user. */

static void hold(pid_t tid) {
    if (move_to_border(tid) && of(tid)) {
        of(tid)->held = 1;
        holds++;
    }
}

static void unhold(pid_t tid) {
    of(tid)->held = 0;
    /* The loop serves a notification. */
    resume_unheld(of(tid));
}

static void play_the_user(unsigned *seed) {
    if (count == 0)
        return;
    struct thread *t = &threads[rand_r(seed) % count];
    if (t->held)
        unhold(t->tid);
    else if (t->tid != collecting)
        hold(t->tid);
    step();
}

/* Whether a stop depends on threads that this debugger has stopped. */
static int is_relied_on(void) {
    for (int i = 0; i < count; i++)
        if (threads[i].answered)
            return 1;
    return collecting != 0;
}

/* Serves until the time is over and no stop depends on this debugger, or until the process ends. */
static void live(double seconds, int hold_every, unsigned seed) {
    double until = now() + seconds, next_hold = now();
    while (!ended) {
        double t = now();
        int is_over = t > until;
        pid_t tid = take(-1, 0);
        if (tid > 0 && of(tid) && !of(tid)->request)
            resume_unheld(of(tid));
        int was_served = serve_one();
        release_answered();
        if (is_over)
            for (int i = 0; i < count; i++)
                if (threads[i].held)
                    unhold(threads[i].tid);
        if (is_over && !is_relied_on())
            return;
        if (hold_every && !is_over && t > next_hold) {
            next_hold = t + hold_every / 1e3;
            play_the_user(&seed);
        }
        if (tid <= 0 && !was_served)
            usleep(100);
    }
}

/* 2: seizing. */

/* Seizes the threads that are not traced yet. 0: there are no others, if all threads that were traced before were stopped. */
static int seize_new(long options) {
    char path[64];
    int is_new = 0, listed = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        fail("process %d", pid);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        listed += tid > 0;
        if (tid > 0 && !of(tid) && (ptrace(PTRACE_SEIZE, tid, 0, options) == 0 || status_number(tid, "TracerPid") == getpid()))
            is_new = 1, add(tid);
    }
    closedir(tasks);
    return is_new || listed != status_number(pid, "Threads");
}

static void seize_all(long options) {
    while (seize_new(options))
        if (!stop_all_but(0))
            fail("a thread of process %d does not stop", pid);
    if (count == 0)
        fail("process %d can't be traced", pid);
}

static void open_memory(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    if (memory >= 0)
        close(memory);
    memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0)
        fail("the memory of process %d", pid);
}

static void launch(char **program, long options) {
    int go[2];
    if (pipe2(go, O_CLOEXEC) != 0)
        fail("a pipe");
    pid = fork();
    if (pid == 0) {
        char byte;
        if (read(go[0], &byte, 1) == 1)
            execvp(program[0], program);
        _exit(127);
    }
    if (ptrace(PTRACE_SEIZE, pid, 0, options) != 0 || write(go[1], "x", 1) != 1)
        fail("process %d can't be traced", pid);
    add(pid);
    while (!exec_seen) {
        if (take(pid, 10) < 0 || ended)
            fail("%s can't be run", program[0]);
        if (!exec_seen)
            resume(of(pid));
    }
    open_memory();
    if (!find_descriptor())
        fail("%s has no descriptor", program[0]);
    unrelocated = d.park < descriptor_at - (64 << 20) || d.park > descriptor_at + (64 << 20);
}

static void detach_all(void) {
    if (ended)
        return;
    stop_all_but(0);
    step();
    write_control(0);
    step();
    while (count > 0) {
        ptrace(PTRACE_DETACH, threads[0].tid, 0, (void *)(long)threads[0].signal);
        forget(threads[0].tid);
        step();
    }
}

int main(int argc, char **argv) {
    double seconds = 1;
    int hold_every = 0, i = 1;
    unsigned seed = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        const char *option = argv[i] + 2, *value = argv[i + 1];
        if (!strcmp(option, "mode"))
            full = strcmp(value, "assisted") != 0;
        else if (!strcmp(option, "milliseconds"))
            seconds = atof(value) / 1e3;
        else if (!strcmp(option, "seed"))
            seed = (unsigned)atol(value);
        else if (!strcmp(option, "holds"))
            hold_every = atoi(value);
        else if (!strcmp(option, "save-area"))
            use_save_area = atoi(value);
        else if (!strcmp(option, "die-at"))
            die_at = atol(value);
        else
            break;
    }
    if (i + 1 >= argc || (strcmp(argv[i], "attach") && strcmp(argv[i], "launch"))) {
        fputs("usage: debugger [--mode full|assisted] [--milliseconds N] [--seed N] [--holds N] [--save-area 1] [--die-at N] "
              "attach PID | launch PROGRAM [ARGUMENT]...\n",
              stderr);
        return 2;
    }
    word who = (word)getpid() << STOPWORLD_CONTROL_WHO_SHIFT;
    word mode = full ? STOPWORLD_CONTROL_FULL : STOPWORLD_CONTROL_ASSISTED;
    if (!strcmp(argv[i], "attach")) {
        pid = atoi(argv[i + 1]);
        open_memory();
        if (!find_descriptor())
            fail("process %d has no descriptor", pid);
        seize_all(PTRACE_O_TRACECLONE);
    } else {
        launch(argv + i + 1, PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC);
    }
    step();
    write_control(who | mode);
    step();
    for (int j = 0; j < count; j++)
        resume_unheld(&threads[j]);
    live(seconds, hold_every, seed);
    int relocated = d.park > descriptor_at - (64 << 20) && d.park < descriptor_at + (64 << 20);
    detach_all();
    printf("stops %ld starts %ld again %ld answered %ld in-handler %ld frames %ld save-areas %ld parked %ld clones %ld moved %ld births %ld "
           "holds %ld given-up %ld steps %ld unrelocated %d relocated %d\n",
           stops, starts, again, answered, in_handler, frames, save_areas, parked_stops, clones, moved, births, holds, given_up, steps,
           unrelocated, relocated);
    return 0;
}
