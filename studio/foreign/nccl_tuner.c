#include "studio/foreign/nccl_tuner.h"

#include <inttypes.h>
#include <string.h>

/* NULL: NCCL has none. */
static const char *collective_of(const struct tune_entry *entry)
{
    switch (entry->key.collective) {
    case COLLECTIVE_ALLREDUCE: return "allreduce";
    case COLLECTIVE_REDUCE: return "reduce";
    case COLLECTIVE_BROADCAST: return "broadcast";
    case COLLECTIVE_ALLGATHER: return "allgather";
    case COLLECTIVE_REDUCE_SCATTER: return "reducescatter";
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return NULL;
}

/* NULL: NCCL has none. Its tree is double, and only for allreduce. */
static const char *algorithm_of(const struct tune_entry *entry)
{
    const char *name = entry->algorithm->name;
    if (strcmp(name, "ring") == 0) return "ring";
    const bool is_tree = strcmp(name, "tree") == 0 || strcmp(name, "double_tree") == 0;
    return is_tree && entry->key.collective == COLLECTIVE_ALLREDUCE ? "tree" : NULL;
}

static bool dump_entry(const struct tune_entry *entry, FILE *file)
{
    const char *const collective = collective_of(entry), *const algorithm = algorithm_of(entry);
    const struct tune_key *key = &entry->key;
    if (collective == NULL || algorithm == NULL || key->dtypes != CALIBRATION_CLASS_PLAIN ||
        key->shape.rack_count > 1 || key->shape.is_loopback)
        return false;
    const bool has_blocks =
        key->collective == COLLECTIVE_ALLGATHER || key->collective == COLLECTIVE_REDUCE_SCATTER;
    const uint64_t blocks = has_blocks ? (uint64_t)key->shape.rank_count : 1;
    fprintf(file, "%s,%" PRIu64 ",%" PRIu64 ",%s,simple,-1,%d,%d,-1,%d\n", collective,
            entry->bytes_from * blocks, entry->bytes_to * blocks - 1, algorithm,
            key->shape.host_count, key->shape.rank_count, key->is_mapped);
    return true;
}

int nccl_tuner_dump(const struct tune_table *table, FILE *file)
{
    int left_out = 0;
    fputs("# collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
          "regBuff\n",
          file);
    for (int i = 0; i < table->count; i++)
        if (!dump_entry(&table->entries[i], file)) left_out++;
    return left_out;
}
