/* Stacks of the program's own: a pointer that is only on a coroutine's stack keeps its object alive, in each of the ways in which a program
   makes such a stack known. */
#include "libgc.h"
#include <ucontext.h>

#define STACK (256 << 10)

enum way { ROOTS, VARIABLE, FUNCTION, WAYS };

static ucontext_t outside, inside;
static char *stack;
static int done;

static void coroutine(void) {
    /* Volatile, so that it is on the stack when the other one runs. */
    uintptr_t *volatile kept = list(8);
    GC_gcollect();
    churn();
    CHECK(is_whole_list(kept, 8));
    swapcontext(&inside, &outside);
    CHECK(is_whole_list(kept, 8));
    GC_gcollect();
    done = 1;
}

static void push(void) {
    GC_push_all_eager(stack, stack + STACK);
}

static void *run(void *argument) {
    enum way way = (enum way)(intptr_t)argument;
    struct GC_stack_base own, other = {stack + STACK};
    void *thread = GC_get_my_stackbottom(&own);
    uintptr_t *volatile kept = list(9);
    done = 0;
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    if (way == ROOTS) GC_add_roots(stack, stack + STACK);
    else GC_set_push_other_roots(push);
    for (int step = 0; !done; step++) {
        if (way == VARIABLE) GC_stackbottom = other.mem_base;
        if (way == FUNCTION) GC_set_stackbottom(thread, &other);
        swapcontext(&outside, &inside);
        if (way == VARIABLE) GC_stackbottom = own.mem_base;
        if (way == FUNCTION) GC_set_stackbottom(thread, &own);
        GC_gcollect();
        churn();
        CHECK(is_whole_list(kept, 9));
    }
    if (way == ROOTS) GC_remove_roots(stack, stack + STACK);
    return NULL;
}

int main(void) {
    GC_init();
    stack = malloc(STACK);
    for (intptr_t way = 0; way < WAYS; way++) run((void *)way);
    size_t before = GC_gc_no;
    pthread_t thread;
    CHECK(GC_pthread_create(&thread, NULL, run, (void *)FUNCTION) == 0 && GC_pthread_join(thread, NULL) == 0);
    CHECK(GC_gc_no >= before + 4);
    return 0;
}
