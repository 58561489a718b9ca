#include "sparse_choose.h"

#include <inttypes.h>
#include <stdio.h>

#include "sparse_index.h"

/* About what bench/sparse showed between four ranks on two busy cores, over shared memory: an
 * exchange of nothing, a byte that moves, a row that is combined, and a byte of the dense matrix
 * that is cleared, filled and read again. Over networks exchanges and bytes both cost more, so that
 * the choice changes little. */
enum { EXCHANGE_NS = 12000, BYTES_PER_NS = 2, ROW_NS = 40, DENSE_BYTES_PER_NS = 2 };
/* Larger costs are never the least. */
#define COST_MAX (UINT64_C(1) << 60)

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > COST_MAX - b ? COST_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > COST_MAX / b ? COST_MAX : a * b;
}

uint64_t sparse_expect(const uint64_t *counts, int size, uint64_t row_count)
{
    /* Shares in units of 2^-32: of the rows that no rank has so far. */
    const uint64_t one = UINT64_C(1) << 32;
    uint64_t missing = one, most = 0, total = 0;
    unsigned shift = 0;
    while (row_count >> shift >= one) shift++;
    for (int r = 0; r < size; r++) {
        const uint64_t rows = row_count >> shift, count = counts[r] >> shift;
        const uint64_t share = rows == 0 ? 0 : count >= rows ? one : (count << 32) / rows;
        missing -= share == one ? missing : missing * share >> 32;
        most = counts[r] > most ? counts[r] : most;
        total = plus(total, counts[r]);
    }
    const uint64_t there = one - missing;
    uint64_t expected = row_count / one * there + (row_count % one * there >> 32);
    if (expected < most) expected = most;
    return expected < total ? expected : total;
}

/* The share of all but one of n ranks. */
static uint64_t of_others(uint64_t bytes, const struct sparse_load *load)
{
    return bytes - bytes / (unsigned)load->size;
}

static uint64_t bytes_of(uint64_t rows, uint64_t range, const struct sparse_load *load)
{
    const uint64_t there = rows < range ? rows : range;
    return plus(times(rows, load->row_bytes), sparse_index_bytes((size_t)there, range));
}

static struct sparse_estimate estimate(unsigned exchanges, uint64_t bytes, uint64_t work_ns)
{
    const uint64_t ns = plus(exchanges * (uint64_t)EXCHANGE_NS, bytes / BYTES_PER_NS);
    return (struct sparse_estimate){bytes, plus(ns, work_ns)};
}

static uint64_t combining_ns(uint64_t rows, const struct sparse_load *load)
{
    return times(rows, ROW_NS + load->row_bytes / BYTES_PER_NS);
}

static struct sparse_estimate estimate_gather(const struct sparse_load *load)
{
    const uint64_t n = (unsigned)load->size;
    const uint64_t bytes = times(bytes_of(load->total / n, load->row_count, load), n);
    return estimate(2, of_others(bytes, load), combining_ns(load->total, load));
}

static struct sparse_estimate estimate_owner(const struct sparse_load *load)
{
    const uint64_t n = (unsigned)load->size, range = load->row_count / n + 1;
    const uint64_t bytes = plus(bytes_of(load->total / n, load->row_count, load),
                                times(bytes_of(load->expected / n, range, load), n));
    return estimate(6, of_others(bytes, load), combining_ns(load->total / n, load));
}

static struct sparse_estimate estimate_dense(const struct sparse_load *load)
{
    const uint64_t bytes = plus(times(load->row_count, load->row_bytes), load->row_count / 8);
    return estimate(2, times(of_others(bytes, load), 2), bytes / DENSE_BYTES_PER_NS);
}

void sparse_choose(const struct sparse_load *load, enum tutti_sparse_way wanted,
                   struct sparse_choice *choice)
{
    *choice = (struct sparse_choice){wanted, wanted != TUTTI_SPARSE_CHOSEN, *load, {{0, 0}}};
    choice->of[TUTTI_SPARSE_GATHER] = estimate_gather(load);
    choice->of[TUTTI_SPARSE_OWNER] = estimate_owner(load);
    choice->of[TUTTI_SPARSE_DENSE] = estimate_dense(load);
    if (choice->is_given) return;
    choice->way = TUTTI_SPARSE_GATHER;
    if (choice->of[TUTTI_SPARSE_OWNER].ns < choice->of[choice->way].ns)
        choice->way = TUTTI_SPARSE_OWNER;
    if (load->may_be_dense && choice->of[TUTTI_SPARSE_DENSE].ns < choice->of[choice->way].ns)
        choice->way = TUTTI_SPARSE_DENSE;
}

const char *sparse_way_name(enum tutti_sparse_way way)
{
    static const char *const names[SPARSE_WAYS] = {"chosen", "gather", "owner", "dense"};
    return (unsigned)way < SPARSE_WAYS ? names[way] : "unknown";
}

void sparse_explain(const struct sparse_choice *choice, char *text, size_t text_bytes)
{
    const struct sparse_load *const load = &choice->load;
    size_t used = 0;
#define ADD(...)                                                                   \
    do {                                                                           \
        const int added = snprintf(text + used, text_bytes - used, __VA_ARGS__);   \
        if (added < 0 || (size_t)added >= text_bytes - used) return; /* cut off */ \
        used += (size_t)added;                                                     \
    } while (0)
    ADD("%s, %s: %" PRIu64 " rows of %zu bytes on %d ranks, about %" PRIu64 " different of %" PRIu64
        "\n",
        sparse_way_name(choice->way), choice->is_given ? "given by the caller" : "chosen",
        load->total, load->row_bytes, load->size, load->expected, load->row_count);
    for (int way = TUTTI_SPARSE_GATHER; way < SPARSE_WAYS; way++) {
        const char *const name = sparse_way_name((enum tutti_sparse_way)way);
        if (way == TUTTI_SPARSE_DENSE && !load->may_be_dense)
            ADD("  %-6s not for this operation, or not deterministic\n", name);
        else if (choice->of[way].bytes >= COST_MAX)
            ADD("  %-6s too large\n", name);
        else
            ADD("  %-6s %12.1f us  %12" PRIu64 " bytes\n", name, (double)choice->of[way].ns / 1e3,
                choice->of[way].bytes);
    }
#undef ADD
}
