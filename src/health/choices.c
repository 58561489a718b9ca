#include "health/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/held.h"

static struct choice_entry *place_of(struct choice_entry *entries, uint64_t number)
{
    return &entries[number % CHOICES_KEPT];
}

/* -------------------------------------------------------------------------------------- reading */

bool choices_read(const struct choices *choices, uint64_t number, struct choice_note *note)
{
    /* Pairs with the release in choices_note: whoever sees the memory sees zeroes there. */
    struct choice_entry *const entries =
        atomic_load_explicit(&choices->entries, memory_order_acquire);
    if (entries == NULL || number == 0) return false;
    struct choice_entry *const entry = place_of(entries, number);
    uint64_t words[CHOICE_NOTE_WORDS];
    if (atomic_load_explicit(&entry->number, memory_order_acquire) != number) return false;
    for (int i = 0; i < CHOICE_NOTE_WORDS; i++)
        words[i] = atomic_load_explicit(&entry->words[i], memory_order_acquire);
    if (atomic_load_explicit(&entry->number, memory_order_relaxed) != number) return false;
    memcpy(note, words, sizeof *note);
    return true;
}

static bool fits(const struct choice_note *note, const struct record *call)
{
    if (call->kind != (unsigned)note->collective || call->dtype != (unsigned)note->dtype ||
        call->varies != note->varies || call->algorithm != note->algorithm)
        return false;
    return note->varies ? call->signature == note->signature : call->count == note->count;
}

uint64_t choices_find(const struct choices *choices, const struct record *call,
                      struct choice_note *note)
{
    const uint64_t last = choices_latest(choices);
    for (uint64_t number = last; number >= choices_first(choices, last); number--)
        if (choices_read(choices, number, note) && fits(note, call)) return number;
    return 0;
}

const struct unused_plan *choices_unused(const struct choices *choices, int i)
{
    if (i >= atomic_load_explicit(&choices->plan_count, memory_order_acquire)) return NULL;
    return &atomic_load_explicit(&choices->plans, memory_order_relaxed)[i];
}

uint64_t choices_unused_left_out(const struct choices *choices)
{
    return atomic_load_explicit(&choices->plans_left_out, memory_order_relaxed);
}

/* -------------------------------------------------------------------------------------- writing */

/* Whether two choices look alike to their readers. */
static bool is_alike(const struct choice_note *a, const struct choice_note *b)
{
    return a->collective == b->collective && a->dtype == b->dtype && a->count == b->count &&
           a->bytes == b->bytes && a->algorithm == b->algorithm && a->reason == b->reason &&
           a->radix == b->radix && a->only_hosts == b->only_hosts && a->varies == b->varies &&
           a->bytes_are_assumed == b->bytes_are_assumed && a->is_mapped == b->is_mapped &&
           a->encoding == b->encoding && (!a->varies || a->signature == b->signature);
}

static bool is_there(const struct choices *choices, const struct choice_note *note)
{
    const uint64_t last = choices_latest(choices);
    struct choice_note kept;
    for (uint64_t number = last; number >= choices_first(choices, last); number--)
        if (choices_read(choices, number, &kept) && is_alike(&kept, note)) return true;
    return false;
}

static struct choice_entry *memory_of(struct choices *choices)
{
    struct choice_entry *entries = atomic_load_explicit(&choices->entries, memory_order_relaxed);
    if (entries != NULL) return entries;
    entries = calloc(CHOICES_KEPT, sizeof *entries);
    atomic_store_explicit(&choices->entries, entries, memory_order_release);
    return entries;
}

void choices_note(struct choices *choices, const struct choice_note *note)
{
    struct choice_entry *const entries = memory_of(choices);
    if (entries == NULL || is_there(choices, note)) return;
    const uint64_t number = choices_latest(choices) + 1;
    struct choice_entry *const entry = place_of(entries, number);
    uint64_t words[CHOICE_NOTE_WORDS];
    memcpy(words, note, sizeof words);
    atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
    /* Releases, so that whoever sees one of these (acquire, in choices_read) sees the zero too. */
    for (int i = 0; i < CHOICE_NOTE_WORDS; i++)
        atomic_store_explicit(&entry->words[i], words[i], memory_order_release);
    atomic_store_explicit(&entry->number, number, memory_order_release);
    atomic_store_explicit(&choices->latest, number, memory_order_release);
}

void choices_note_unused(struct choices *choices, enum collective collective, const char *algorithm,
                         const char *why)
{
    struct unused_plan *plans = atomic_load_explicit(&choices->plans, memory_order_relaxed);
    const int count = atomic_load_explicit(&choices->plan_count, memory_order_relaxed);
    if (plans == NULL) plans = calloc(UNUSED_PLANS_MAX, sizeof *plans);
    if (plans == NULL || count == UNUSED_PLANS_MAX) {
        atomic_fetch_add_explicit(&choices->plans_left_out, 1, memory_order_relaxed);
        return;
    }
    plans[count].algorithm = algorithm;
    plans[count].collective = collective;
    snprintf(plans[count].why, sizeof plans[count].why, "%s", why);
    atomic_store_explicit(&choices->plans, plans, memory_order_relaxed);
    /* Pairs with choices_unused: whoever sees the count sees the plan. */
    atomic_store_explicit(&choices->plan_count, count + 1, memory_order_release);
}

/* Numbers go on: a reader that is in the middle of a choice does not find another choice of that
 * number. */
void choices_restart(struct choices *choices)
{
    atomic_store_explicit(&choices->forgotten, choices_latest(choices), memory_order_relaxed);
}

void choices_release(struct choices *choices)
{
    free(atomic_load_explicit(&choices->entries, memory_order_relaxed));
    free(atomic_load_explicit(&choices->plans, memory_order_relaxed));
    *choices = (struct choices){.entries = NULL};
}

size_t choices_bytes(const struct choices *choices)
{
    return held(atomic_load_explicit(&choices->entries, memory_order_relaxed)) +
           held(atomic_load_explicit(&choices->plans, memory_order_relaxed));
}
