/* nccl_tuner.h - a table of measured choices as the configuration of the tuner plugin that NCCL has
 * as an example (ext-tuner/example there): lines of
 *
 *     collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
 *
 * Sizes there are of the larger buffer of a rank, and maxbytes is included. Registered buffers
 * stand for mapped memory. A table says nothing of protocols, but a line must: it is `simple`,
 * which all of NCCL's algorithms have.
 */
#ifndef TUTTI_STUDIO_FOREIGN_NCCL_TUNER_H
#define TUTTI_STUDIO_FOREIGN_NCCL_TUNER_H

#include <stdio.h>

#include "tune/table.h"

/* Returns how many entries were left out: NCCL has no such collective, algorithm or shape, or does
 * not tell dtypes apart. */
int nccl_tuner_dump(const struct tune_table *table, FILE *file);

#endif
