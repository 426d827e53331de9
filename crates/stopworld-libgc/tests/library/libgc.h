/* The functions of the interface that the test programs use. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*GC_fn)(void *);
struct GC_stack_base {
    void *mem_base;
};

extern size_t GC_gc_no;
extern char *GC_stackbottom;
extern int GC_no_dls;
void GC_init(void);
void *GC_malloc(size_t);
void *GC_malloc_atomic(size_t);
void *GC_malloc_uncollectable(size_t);
void GC_free(void *);
void *GC_base(void *);
void GC_gcollect(void);
void GC_add_roots(void *, void *);
void GC_remove_roots(void *, void *);
void GC_clear_roots(void);
int GC_pthread_create(pthread_t *, const pthread_attr_t *, GC_fn, void *);
int GC_pthread_join(pthread_t, void **);
int GC_pthread_sigmask(int, const sigset_t *, sigset_t *);
void GC_pthread_exit(void *);
int GC_thread_is_registered(void);
int GC_register_my_thread(const struct GC_stack_base *);
int GC_unregister_my_thread(void);
int GC_get_stack_base(struct GC_stack_base *);
void *GC_get_my_stackbottom(struct GC_stack_base *);
void GC_set_stackbottom(void *, const struct GC_stack_base *);
void GC_set_push_other_roots(void (*)(void));
void GC_push_all_eager(void *, void *);
int GC_get_suspend_signal(void);
typedef void (*GC_finalization_proc)(void *, void *);
typedef void *(*GC_mark_proc)(uintptr_t *, void *, void *, uintptr_t);
void GC_register_finalizer_no_order(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);
void **GC_new_free_list(void);
unsigned GC_new_proc(GC_mark_proc);
unsigned GC_new_kind(void **, uintptr_t, int, int);
void *GC_generic_malloc(size_t, int);
void GC_printf(const char *, ...);
void GC_err_printf(const char *, ...);
void GC_stop_world_external(void);

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#define COUNT 2000

/* Objects whose content shows whether they are whole. */
static inline uintptr_t *whole(uintptr_t mark) {
    uintptr_t *object = GC_malloc(48);
    for (int word = 1; word < 6; word++) object[word] = mark * 2 + 1;
    return object;
}

static inline int is_whole(uintptr_t *object, uintptr_t mark) {
    for (int word = 1; word < 6; word++)
        if (object[word] != mark * 2 + 1) return 0;
    return 1;
}

/* A list, so that one pointer keeps many objects. */
static inline uintptr_t *list(uintptr_t mark) {
    uintptr_t *head = NULL;
    for (int length = 0; length < COUNT; length++) {
        uintptr_t *object = whole(mark);
        object[0] = (uintptr_t)head;
        head = object;
    }
    return head;
}

static inline int is_whole_list(uintptr_t *head, uintptr_t mark) {
    int length = 0;
    for (; head; head = (uintptr_t *)head[0], length++)
        if (!is_whole(head, mark)) return 0;
    return length == COUNT;
}

/* Overwrites what was freed. */
static inline void churn(void) {
    for (int round = 0; round < 3 * COUNT; round++) {
        uintptr_t *object = GC_malloc(48);
        for (int word = 0; word < 6; word++) {
            CHECK(object[word] == 0);
            object[word] = (uintptr_t)0xbad0bad1;
        }
    }
}
