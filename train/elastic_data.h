/* elastic_data.h - which samples a step takes, and which of them a rank. */
#ifndef TUTTI_TRAIN_ELASTIC_DATA_H
#define TUTTI_TRAIN_ELASTIC_DATA_H

#include <stdint.h>

/* Samples of the next batch, of all ranks together. sample_count 0: an epoch does not end. */
uint64_t elastic_batch(uint64_t position, uint64_t batch, uint64_t sample_count);
/* Of `count` samples the first that is not of the ranks before `rank`: floor(count rank / size). */
uint64_t elastic_batch_first(uint64_t count, int rank, int size);
/* A permutation of 0 to count - 1, by seed and epoch; place < count. */
uint64_t elastic_permute(uint64_t place, uint64_t count, uint64_t seed, uint64_t epoch);

#endif
