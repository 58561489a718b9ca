#include "plan/value.h"

#include <stdlib.h>
#include <string.h>

/* A contribution is written in the value itself: this bit, the rank, the class. Other values are 1
 * + the index of a node. Both may have the bit of a value that was rounded last. */
#define CONTRIBUTION (UINT64_C(1) << 63)
#define ROUNDED (UINT64_C(1) << 62)

struct node {
    uint64_t hash[2];
    uint32_t class, count;
    int low, high;
    uint32_t roundings;
    bool ordered, final;
};

struct value_table {
    int rank_count;
    bool exact;
    uint32_t words;   /* of `who` in use */
    uint64_t full[2]; /* fingerprint of all ranks */
    struct node *nodes;
    uint64_t *who; /* words of each node */
    size_t node_count, node_capacity;
    uint32_t *slots; /* open addressing: 1 + node index, 0 empty */
    size_t slot_count;
    struct plan_budget *budget;
};

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void hash_rank(int rank, uint64_t hash[2])
{
    hash[0] = mix((uint64_t)rank * 2 + UINT64_C(0x51ab1e0000000000));
    hash[1] = mix(hash[0] ^ mix((uint64_t)rank * 2 + 1));
}

/* The marks of a tree: rounded at the end of a step, and scaled; encoded and decoded. */
enum mark { MARK_SUM = 1, MARK_FINAL = 2, MARK_ROUNDED = 3 };

static void hash_mark(uint64_t hash[2], uint64_t mark)
{
    hash[0] = mix(hash[0] ^ mix(mark));
    hash[1] = mix(hash[1] + mix(~mark));
}

static void hash_join(uint64_t into[2], const uint64_t other[2])
{
    const bool swap = into[0] > other[0] || (into[0] == other[0] && into[1] > other[1]);
    const uint64_t *first = swap ? other : into, *second = swap ? into : other;
    const uint64_t low = mix(mix(first[0]) + second[0]) ^ mix(second[1] + 1);
    const uint64_t high = mix(mix(first[1] ^ second[0]) + 3 * second[1]);
    into[0] = low, into[1] = high;
}

static void add_fingerprint(uint64_t sum[2], const uint64_t more[2])
{
    const uint64_t low = sum[0] + more[0];
    sum[1] += more[1] + (low < sum[0]);
    sum[0] = low;
}

static void fingerprint(int rank, uint64_t sum[2])
{
    sum[0] = mix(UINT64_C(0xf17e0000) + (uint64_t)rank);
    sum[1] = mix(sum[0] ^ (uint64_t)rank << 32);
}

struct value_table *value_table_create(int rank_count, struct plan_budget *budget)
{
    struct value_table *table = calloc(1, sizeof *table);
    if (table == NULL) return NULL;
    table->rank_count = rank_count;
    table->budget = budget;
    table->exact = rank_count <= VERIFY_EXACT_RANKS;
    table->words = table->exact ? ((uint32_t)rank_count + 63) / 64 : 2;
    for (int rank = 0; rank < rank_count; rank++) {
        uint64_t one[2];
        fingerprint(rank, one);
        add_fingerprint(table->full, one);
    }
    return table;
}

void value_table_free(struct value_table *table)
{
    if (table == NULL) return;
    free(table->nodes);
    free(table->who);
    free(table->slots);
    free(table);
}

value value_contribution(int rank, uint32_t class)
{
    return CONTRIBUTION | (uint64_t)rank << 32 | class;
}

value value_rounded(value v)
{
    return v | ROUNDED;
}

uint32_t value_class(const struct value_table *table, value v)
{
    v &= ~ROUNDED;
    return (v & CONTRIBUTION) ? (uint32_t)v : table->nodes[v - 1].class;
}

static void take_unrounded(const struct value_table *table, value v, struct value_parts *parts)
{
    memset(parts->who, 0, table->words * sizeof parts->who[0]);
    if (v & CONTRIBUTION) {
        const int rank = (int)((v & ~CONTRIBUTION) >> 32);
        hash_rank(rank, parts->hash);
        parts->class = (uint32_t)v;
        parts->count = 1;
        parts->low = parts->high = rank;
        parts->roundings = 0;
        parts->ordered = true;
        parts->final = false;
        if (table->exact)
            parts->who[rank / 64] = UINT64_C(1) << (rank % 64);
        else
            fingerprint(rank, parts->who);
        return;
    }
    const struct node *node = &table->nodes[v - 1];
    memcpy(parts->hash, node->hash, sizeof parts->hash);
    parts->class = node->class, parts->count = node->count;
    parts->low = node->low, parts->high = node->high;
    parts->roundings = node->roundings;
    parts->ordered = node->ordered, parts->final = node->final;
    memcpy(parts->who, table->who + (v - 1) * table->words, table->words * sizeof parts->who[0]);
}

void value_take(const struct value_table *table, value v, struct value_parts *parts)
{
    take_unrounded(table, v & ~ROUNDED, parts);
    if ((v & ROUNDED) == 0) return;
    hash_mark(parts->hash, MARK_ROUNDED);
    parts->roundings++;
}

int value_overlap(const struct value_table *table, const struct value_parts *a,
                  const struct value_parts *b)
{
    if (!table->exact)
        return (uint64_t)a->count + b->count > (uint64_t)table->rank_count ? VALUE_SOME_RANK
                                                                           : VALUE_DISJOINT;
    for (uint32_t i = 0; i < table->words; i++) {
        const uint64_t both = a->who[i] & b->who[i];
        if (both != 0) return (int)i * 64 + __builtin_ctzll(both);
    }
    return VALUE_DISJOINT;
}

void value_add(const struct value_table *table, struct value_parts *into,
               const struct value_parts *operand)
{
    into->ordered = into->ordered && operand->ordered && into->high + 1 == operand->low;
    if (operand->low < into->low) into->low = operand->low;
    if (operand->high > into->high) into->high = operand->high;
    into->count += operand->count;
    if (into->roundings < operand->roundings) into->roundings = operand->roundings;
    hash_join(into->hash, operand->hash);
    if (table->exact)
        for (uint32_t i = 0; i < table->words; i++) into->who[i] |= operand->who[i];
    else
        add_fingerprint(into->who, operand->who);
}

bool value_is_complete(const struct value_table *table, const struct value_parts *parts)
{
    if (parts->count != (uint32_t)table->rank_count) return false;
    return table->exact || memcmp(parts->who, table->full, sizeof table->full) == 0;
}

static size_t slot_of(const struct value_table *table, const struct node *node)
{
    const uint64_t hash = node->hash[0] ^ mix((uint64_t)node->class << 1 | node->ordered);
    return (size_t)hash & (table->slot_count - 1);
}

static bool same_node(const struct node *a, const struct node *b)
{
    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] && a->class == b->class &&
           a->ordered == b->ordered;
}

static bool grow_slots(struct value_table *table)
{
    if (2 * (table->node_count + 1) <= table->slot_count) return true;
    const size_t wanted = table->slot_count == 0 ? 64 : 2 * table->slot_count;
    if (!plan_budget_hold(table->budget, wanted * sizeof(uint32_t))) return false;
    uint32_t *slots = calloc(wanted, sizeof *slots);
    if (slots == NULL) return false;
    plan_budget_release(table->budget, table->slot_count * sizeof *slots);
    free(table->slots);
    table->slots = slots;
    table->slot_count = wanted;
    for (size_t i = 0; i < table->node_count; i++) {
        size_t at = slot_of(table, &table->nodes[i]);
        while (slots[at] != 0) at = (at + 1) & (wanted - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return true;
}

static bool grow_nodes(struct value_table *table)
{
    if (table->node_count < table->node_capacity) return true;
    const size_t wanted = 2 * table->node_capacity + 32;
    const size_t node_bytes = sizeof(struct node) + table->words * sizeof(uint64_t);
    if (wanted >= UINT32_MAX ||
        !plan_budget_hold(table->budget, (wanted - table->node_capacity) * node_bytes))
        return false;
    struct node *nodes = realloc(table->nodes, wanted * sizeof *nodes);
    if (nodes == NULL) return false;
    table->nodes = nodes;
    uint64_t *who = realloc(table->who, wanted * table->words * sizeof *who);
    if (who == NULL) return false;
    table->who = who;
    table->node_capacity = wanted;
    return true;
}

value value_store(struct value_table *table, const struct value_parts *parts)
{
    struct node node = {.class = parts->class,
                        .count = parts->count,
                        .low = parts->low,
                        .high = parts->high,
                        .roundings = parts->roundings,
                        .ordered = parts->ordered,
                        .final = parts->final};
    memcpy(node.hash, parts->hash, sizeof node.hash);
    hash_mark(node.hash, parts->final ? MARK_FINAL : MARK_SUM);
    if (!grow_slots(table) || !grow_nodes(table)) return VALUE_NONE;
    size_t at = slot_of(table, &node);
    for (; table->slots[at] != 0; at = (at + 1) & (table->slot_count - 1))
        if (same_node(&table->nodes[table->slots[at] - 1], &node)) return table->slots[at];
    memcpy(table->who + table->node_count * table->words, parts->who,
           table->words * sizeof parts->who[0]);
    table->nodes[table->node_count++] = node;
    table->slots[at] = (uint32_t)table->node_count;
    return table->node_count;
}
