#include "health/exclusion.h"

#include <stdatomic.h>

#include "health/health.h"

/* The word: the rank that says it, and 1; the cause; whether it is decided. */
enum { BY_BITS = 20, CAUSE_BITS = 8, CAUSE_COUNT = TUTTI_CAUSE_DEVICE + 1 };
#define WORD_DECIDED (UINT64_C(1) << (BY_BITS + CAUSE_BITS))

uint64_t exclusion_word(const struct exclusion *exclusion)
{
    return (uint64_t)(exclusion->by + 1) | (uint64_t)exclusion->cause << BY_BITS |
           (exclusion->is_decided ? WORD_DECIDED : 0);
}

/* The word may be foreign. */
static bool read_word(const struct health *health, uint64_t word, struct exclusion *exclusion)
{
    const uint64_t by = word & ((1u << BY_BITS) - 1);
    const uint64_t cause = word >> BY_BITS & ((1u << CAUSE_BITS) - 1);
    if (by == 0 || by > (uint64_t)health->team->size) return false;
    *exclusion = (struct exclusion){.is_decided = (word & WORD_DECIDED) != 0,
                                    .by = (int)by - 1,
                                    .cause = cause < CAUSE_COUNT ? (enum tutti_cause)cause
                                                                 : TUTTI_CAUSE_NONE};
    return true;
}

const char *exclusion_cause_text(enum tutti_cause cause)
{
    switch (cause) {
    case TUTTI_CAUSE_LATE: return "it comes late to call after call";
    case TUTTI_CAUSE_STALLED: return "its process does not run";
    case TUTTI_CAUSE_CORRUPT: return "what it sends arrives changed";
    case TUTTI_CAUSE_DEVICE: return "its GPU has failed";
    default: return "no cause was said";
    }
}

void exclusion_write(struct health *health, int number, uint64_t word)
{
    _Atomic uint64_t *const place = &health->board->ranks[number].excluded;
    uint64_t there = atomic_load_explicit(place, memory_order_relaxed);
    while ((there & WORD_DECIDED) == 0 && (there == 0 || (word & WORD_DECIDED) != 0))
        if (atomic_compare_exchange_weak_explicit(place, &there, word, memory_order_release,
                                                  memory_order_relaxed))
            return;
}

bool exclusion_of_self(const struct health *health, struct exclusion *exclusion)
{
    if (health->board == NULL) return false;
    const uint64_t word = /* pairs with exclusion_write */
        atomic_load_explicit(&health->board->ranks[health->board_number].excluded,
                             memory_order_acquire);
    return read_word(health, word, exclusion);
}

void exclusion_hear(struct health *health, uint64_t word)
{
    struct exclusion exclusion;
    if (read_word(health, word, &exclusion))
        exclusion_write(health, health->board_number, exclusion_word(&exclusion));
}
