#include "front/handles.h"

#include <assert.h>
#include <stdatomic.h>

static _Atomic(void *) objects[FRONT_KIND_COUNT][FRONT_HANDLES_MAX];
/* Where to look first for a place that is free. */
static atomic_uint hints[FRONT_KIND_COUNT];

static const front_handle first_of_kind = 0x10000;

static _Atomic(void *) *place_of(enum front_kind kind, front_handle handle)
{
    const front_handle first = first_of_kind * (kind + 1);
    if (handle < first || handle - first >= FRONT_HANDLES_MAX) return NULL;
    return &objects[kind][handle - first];
}

front_handle front_keep(enum front_kind kind, void *object)
{
    assert(object != NULL);
    const unsigned hint = atomic_fetch_add_explicit(&hints[kind], 1, memory_order_relaxed);
    for (unsigned i = 0; i < FRONT_HANDLES_MAX; i++) {
        const unsigned index = (hint + i) % FRONT_HANDLES_MAX;
        void *none = NULL;
        /* release: pairs with the acquire of who finds or takes it. */
        if (atomic_compare_exchange_strong_explicit(&objects[kind][index], &none, object,
                                                    memory_order_release, memory_order_relaxed))
            return first_of_kind * (kind + 1) + index;
    }
    return 0;
}

void *front_find(enum front_kind kind, front_handle handle)
{
    _Atomic(void *) *place = place_of(kind, handle);
    return place != NULL ? atomic_load_explicit(place, memory_order_acquire) : NULL;
}

void *front_take(enum front_kind kind, front_handle handle)
{
    _Atomic(void *) *place = place_of(kind, handle);
    return place != NULL ? atomic_exchange_explicit(place, NULL, memory_order_acq_rel) : NULL;
}

void *front_take_any(enum front_kind kind)
{
    for (unsigned i = 0; i < FRONT_HANDLES_MAX; i++) {
        void *object = front_take(kind, first_of_kind * (kind + 1) + i);
        if (object != NULL) return object;
    }
    return NULL;
}
