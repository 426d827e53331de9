/* A library that is loaded while the program runs. It has a pointer that nothing else has. */
#include <stdint.h>

static uintptr_t *kept;

void keep(uintptr_t *object) {
    kept = object;
}

uintptr_t *get(void) {
    return kept;
}
