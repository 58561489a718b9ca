/* Whatever comes for messages, in whatever order with whatever is known and whenever: an agreement
 * stays within its memory, sends only what makes sense, ends once, and what it decided stays.
 *
 * The input: size, rank, and a script of operations (one byte) and their arguments. Head fields
 * that any other value would only get dropped for (magic, size, epoch) are put right, so that what
 * comes behind them is reached. */
#include <stdlib.h>
#include <string.h>

#include "membership/agreement.h"
#include "membership/rank_set.h"

enum { EPOCH = 5, WORDS_MAX = AGREEMENT_SIZE_MAX / 64 };

struct script {
    const uint8_t *data;
    size_t left;
    int size, rank;
    struct agreement *agreement;
    uint64_t now_ns;
    size_t sent;
    enum agreement_state state;
    uint64_t word;
    uint64_t set[WORDS_MAX];
};

static unsigned next(struct script *script)
{
    if (script->left == 0) return 0;
    script->left--;
    return *script->data++;
}

static void look_at(void *context, int to, const void *bytes, size_t byte_count)
{
    struct script *const script = context;
    uint64_t epoch;
    if (to < 0 || to >= script->size || to == script->rank) abort();
    if (!agreement_message_epoch(bytes, byte_count, &epoch) || epoch != EPOCH) abort();
    script->sent++;
}

static int other_rank(struct script *script)
{
    const unsigned high = next(script);
    const int rank = (int)((high << 8 | next(script)) % (unsigned)script->size);
    return rank != script->rank ? rank : (rank + 1) % script->size;
}

static void hear(struct script *script)
{
    unsigned char bytes[AGREEMENT_MESSAGE_BYTES_MAX + 8] = {0};
    const uint32_t size = (uint32_t)script->size;
    const int from = other_rank(script);
    const unsigned form = next(script);
    const size_t set_words = rank_set_words(script->size);
    size_t byte_count = AGREEMENT_HEAD_BYTES;
    bytes[0] = 0x41, bytes[1] = 0x67;
    bytes[2] = (unsigned char)(form % 9);
    bytes[3] = (unsigned char)(form / 9 % 4);
    for (int i = 0; i < 4; i++) bytes[4 + i] = (unsigned char)(size >> (8 * i));
    bytes[8] = EPOCH;
    for (size_t i = 16; i < 48; i++) /* mostly small numbers */
        if (i % 8 < 4 || i % 8 == 7) bytes[i] = (unsigned char)next(script);
    if (form & 0x80) { /* with the slice it should have */
        const size_t first = (size_t)bytes[3] * AGREEMENT_SLICE_WORDS;
        size_t words = first < set_words ? set_words - first : 0;
        if (words > AGREEMENT_SLICE_WORDS) words = AGREEMENT_SLICE_WORDS;
        const size_t given = next(script) % 64;
        for (size_t i = 0; i < given; i++)
            if (i < 8 * words) bytes[AGREEMENT_HEAD_BYTES + i] = (unsigned char)next(script);
        byte_count += 8 * words;
    } else {
        byte_count = AGREEMENT_HEAD_BYTES + next(script) % 3 * 4;
    }
    unsigned char *const exact = malloc(byte_count); /* the sanitizer sees what lies beyond */
    if (exact == NULL) abort();
    memcpy(exact, bytes, byte_count);
    agreement_hear(script->agreement, from, exact, byte_count, script->now_ns);
    free(exact);
}

static void hear_raw(struct script *script)
{
    const int from = (int)(int8_t)next(script);
    size_t count = next(script) * 3;
    if (count > script->left) count = script->left;
    agreement_hear(script->agreement, from, script->data, count, script->now_ns);
    script->data += count;
    script->left -= count;
}

static void check(struct script *script)
{
    const enum agreement_state state = agreement_state(script->agreement);
    const size_t set_bytes = 8 * rank_set_words(script->size);
    if (script->state != AGREEMENT_RUNNING && state != script->state) abort();
    if (state == AGREEMENT_DECIDED && script->state == AGREEMENT_RUNNING) {
        memcpy(script->set, agreement_set(script->agreement), set_bytes);
        script->word = agreement_word(script->agreement);
        if (rank_set_count(script->set, script->size) == 0) abort();
    }
    if (state == AGREEMENT_DECIDED &&
        (memcmp(script->set, agreement_set(script->agreement), set_bytes) ||
         script->word != agreement_word(script->agreement)))
        abort();
    script->state = state;
    const int awaited = agreement_awaited(script->agreement);
    if (awaited < -1 || awaited >= script->size || awaited == script->rank) abort();
    if ((agreement_due_ns(script->agreement) == UINT64_MAX) != (state != AGREEMENT_RUNNING))
        abort();
    /* One input: at most two broadcasts, and what one rank is told. */
    const size_t slices =
        (rank_set_words(script->size) + AGREEMENT_SLICE_WORDS - 1) / AGREEMENT_SLICE_WORDS;
    if (script->sent > slices * 4 * ((size_t)script->size + 4)) abort();
    script->sent = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int sizes[] = {2, 3, 4, 5, 7, 64, 65, 130, 3584, 3585, 7500};
    struct script *const script = calloc(1, sizeof *script);
    if (script == NULL) abort();
    script->data = data;
    script->left = size;
    script->size = sizes[next(script) % (sizeof sizes / sizeof *sizes)];
    script->rank = (int)(next(script) % (unsigned)script->size);
    const struct agreement_options options = {.size = script->size,
                                              .rank = script->rank,
                                              .epoch = EPOCH,
                                              .word = 0xf0f0,
                                              .send = look_at,
                                              .context = script};
    if (agreement_create(&options, &script->agreement) != TUTTI_OK) abort();
    while (script->left > 0) {
        switch (next(script) & 7) {
        case 0: agreement_suspect(script->agreement, other_rank(script)); break;
        case 1: agreement_unsuspect(script->agreement, other_rank(script)); break;
        case 2: agreement_declare_dead(script->agreement, other_rank(script)); break;
        case 3:
            script->now_ns += next(script) * UINT64_C(4000000);
            agreement_tick(script->agreement, script->now_ns);
            break;
        case 4:
            if (next(script) == 0xee) agreement_give_up(script->agreement);
            break;
        case 5: hear_raw(script); break;
        default: hear(script); break;
        }
        check(script);
    }
    agreement_free(script->agreement);
    free(script);
    return 0;
}
