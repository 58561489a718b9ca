#include "studio/foreign/msccl_algo.h"

#include <stdlib.h>

const struct msccl_traits msccl_types[MSCCL_TYPE_COUNT] = {
#define X(enumerator, name, receives, sends, reads, stores) \
    [enumerator] = {name, receives, sends, reads, stores},
    MSCCL_TYPE_LIST(X)
#undef X
};

void msccl_algo_release(struct msccl_algo *algo)
{
    free(algo->gpus);
    free(algo->blocks);
    free(algo->steps);
    *algo = (struct msccl_algo){0};
}
