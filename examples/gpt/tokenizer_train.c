/* tokenizer_train.c - finds the pairs of a tokenizer (tokenizer.h).
 *
 * The text is turned into its distinct words, with how often each is there, and these into symbols,
 * which are tokens that know their neighbours. For each pair of neighbours there is a list of the
 * places where it stands:
 *
 *     symbols    t ─ h ─ e    t ─ h ─ a ─ t       pairs   t h: 0, 3      h e: 1      h a: 4      a t: 5
 *                0   1   2    3   4   5   6
 *
 * Making a token of a pair goes through the pair's list, and changes the lists of the pairs to the
 * left and to the right of each place; so all of training takes as many turns as there are symbols
 * to begin with.
 *
 * A new pair has the new token in it, so its count grows only while that token is made. Afterwards
 * it can only fall. A heap of counts may therefore be out of date in one direction: an entry that
 * comes out with too large a count goes in again.
 */

#include "tokenizer_state.h"

#define NONE UINT32_MAX

struct symbol {
    uint32_t token, weight;           /* how often its word is in the text */
    uint32_t left, right;             /* neighbours in the word */
    uint32_t list_before, list_after; /* places of the same pair, which begins here */
};

struct pair {
    uint32_t left, right; /* tokens */
    uint32_t first, last; /* places of the list, which is in the text's order */
    uint64_t count;
};

struct candidate {
    uint64_t count;
    uint32_t pair;
};

struct training {
    struct symbol *symbols;
    size_t symbol_count;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    struct pair_map numbers; /* of pairs */
    struct candidate *heap;  /* children of i: 2 i + 1 and 2 i + 2; as large as the pairs */
    size_t heap_count;
};

/* ---------------------------------------------------------------------------------------- words */

struct word {
    const unsigned char *bytes;
    uint32_t size, count;
};

/* A table with open addressing of all distinct words. */
struct words {
    struct word *slots;
    size_t capacity, count, bytes;
};

static struct word *find_word(const struct words *words, const unsigned char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    for (size_t place = (size_t)(hash ^ hash >> 32);; place++) {
        struct word *word = &words->slots[place & (words->capacity - 1)];
        if (word->count == 0 || (word->size == size && memcmp(word->bytes, bytes, size) == 0))
            return word;
    }
}

static void grow_words(struct words *words)
{
    struct words larger = *words;
    larger.capacity = words->capacity > 0 ? 2 * words->capacity : 1024;
    larger.slots = allocate(larger.capacity, sizeof *larger.slots);
    for (size_t i = 0; i < words->capacity; i++) {
        const struct word *word = &words->slots[i];
        if (word->count > 0) *find_word(&larger, word->bytes, word->size) = *word;
    }
    free(words->slots);
    *words = larger;
}

static struct words count_words(const unsigned char *text, size_t size)
{
    struct words words = {.capacity = 0};
    for (size_t begin = 0, length; begin < size; begin += length) {
        if (2 * (words.count + 1) > words.capacity) grow_words(&words);
        length = tokenizer_word(text + begin, size - begin);
        struct word *word = find_word(&words, text + begin, length);
        if (word->count++ > 0) continue;
        word->bytes = text + begin;
        word->size = (uint32_t)length;
        words.count++;
        words.bytes += length;
    }
    return words;
}

/* ----------------------------------------------------------------------------------------- heap */

/* The more frequent one; of two, the one that was found first, which the text alone decides. */
static bool is_before(const struct training *training, size_t a, size_t b)
{
    const struct candidate *x = &training->heap[a], *y = &training->heap[b];
    return x->count != y->count ? x->count > y->count : x->pair < y->pair;
}

static void swap(struct training *training, size_t a, size_t b)
{
    const struct candidate candidate = training->heap[a];
    training->heap[a] = training->heap[b];
    training->heap[b] = candidate;
}

static void push(struct training *training, uint32_t pair)
{
    size_t at = training->heap_count++;
    training->heap[at] = (struct candidate){training->pairs[pair].count, pair};
    for (; at > 0 && is_before(training, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(training, at, (at - 1) / 2);
}

static struct candidate pop(struct training *training)
{
    const struct candidate top = training->heap[0];
    training->heap[0] = training->heap[--training->heap_count];
    for (size_t at = 0, child; (child = 2 * at + 1) < training->heap_count; at = child) {
        if (child + 1 < training->heap_count && is_before(training, child + 1, child)) child++;
        if (!is_before(training, child, at)) break;
        swap(training, child, at);
    }
    return top;
}

/* ---------------------------------------------------------------------------------------- pairs */

static struct pair *pair_of(struct training *training, uint32_t left, uint32_t right)
{
    uint32_t number = pair_map_find(&training->numbers, left, right);
    if (number == PAIR_ABSENT) {
        if (training->pair_count == training->pair_capacity) {
            training->pair_capacity = 2 * training->pair_capacity + 1024;
            training->pairs =
                realloc(training->pairs, training->pair_capacity * sizeof *training->pairs);
            training->heap =
                realloc(training->heap, training->pair_capacity * sizeof *training->heap);
            if (training->pairs == NULL || training->heap == NULL)
                give_up("memory", strerror(errno));
        }
        number = (uint32_t)training->pair_count++;
        training->pairs[number] =
            (struct pair){.left = left, .right = right, .first = NONE, .last = NONE};
        pair_map_add(&training->numbers, left, right, number);
    }
    return &training->pairs[number];
}

/* The pair that begins at a symbol is there, or is there no longer. Nothing to do at the end of a
 * word. */
static void link_pair(struct training *training, uint32_t place)
{
    struct symbol *symbols = training->symbols, *symbol = &symbols[place];
    if (symbol->right == NONE) return;
    struct pair *pair = pair_of(training, symbol->token, symbols[symbol->right].token);
    pair->count += symbol->weight;
    symbol->list_before = pair->last;
    symbol->list_after = NONE;
    *(pair->last != NONE ? &symbols[pair->last].list_after : &pair->first) = place;
    pair->last = place;
}

static void unlink_pair(struct training *training, uint32_t place)
{
    struct symbol *symbols = training->symbols, *symbol = &symbols[place];
    if (symbol->right == NONE) return;
    struct pair *pair = pair_of(training, symbol->token, symbols[symbol->right].token);
    pair->count -= symbol->weight;
    const uint32_t before = symbol->list_before, after = symbol->list_after;
    *(before != NONE ? &symbols[before].list_after : &pair->first) = after;
    *(after != NONE ? &symbols[after].list_before : &pair->last) = before;
}

/* Puts the token in the place of the pair that begins there. */
static void join_at(struct training *training, uint32_t place, uint32_t token)
{
    struct symbol *symbols = training->symbols, *symbol = &symbols[place];
    const uint32_t left = symbol->left, gone = symbol->right;
    if (left != NONE) unlink_pair(training, left);
    unlink_pair(training, place);
    unlink_pair(training, gone);
    symbol->token = token;
    symbol->right = symbols[gone].right;
    if (symbol->right != NONE) symbols[symbol->right].left = place;
    if (left != NONE) link_pair(training, left);
    link_pair(training, place);
}

static void begin(struct training *training, const struct words *words)
{
    training->symbols = allocate(words->bytes, sizeof *training->symbols);
    for (size_t w = 0; w < words->capacity; w++) {
        const struct word *word = &words->slots[w];
        const uint32_t first = (uint32_t)training->symbol_count;
        for (uint32_t i = 0; word->count > 0 && i < word->size; i++)
            training->symbols[training->symbol_count++] =
                (struct symbol){.token = word->bytes[i],
                                .weight = word->count,
                                .left = i > 0 ? first + i - 1 : NONE,
                                .right = i + 1 < word->size ? first + i + 1 : NONE};
    }
    for (uint32_t place = 0; place < training->symbol_count; place++) link_pair(training, place);
    for (uint32_t pair = 0; pair < training->pair_count; pair++) push(training, pair);
}

struct tokenizer *tokenizer_train(const unsigned char *text, size_t size, size_t vocabulary)
{
    struct tokenizer *tokenizer = tokenizer_create();
    struct training training = {.symbol_count = 0};
    struct words words = count_words(text, size);
    begin(&training, &words);
    while (tokenizer->vocabulary < vocabulary && training.heap_count > 0) {
        const struct candidate best = pop(&training);
        const struct pair pair = training.pairs[best.pair];
        if (pair.count != best.count) { /* it has fallen since */
            push(&training, best.pair);
            continue;
        }
        if (pair.count < 2) break;
        const uint32_t token = (uint32_t)tokenizer->vocabulary;
        const size_t known = training.pair_count;
        if (!tokenizer_add(tokenizer, pair.left, pair.right)) continue;
        while (training.pairs[best.pair].first != NONE)
            join_at(&training, training.pairs[best.pair].first, token);
        for (size_t i = known; i < training.pair_count; i++) push(&training, (uint32_t)i);
    }
    free(words.slots);
    free(training.symbols);
    free(training.pairs);
    free(training.numbers.slots);
    free(training.heap);
    return tokenizer;
}
