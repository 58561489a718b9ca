/* compress_state.h - the state that the files of the compressor share, and what a method of
 * compression is.
 *
 *                 ready            finish
 *     bucket      begin ─► first exchange ─► middle ─► second exchange ─┐
 *     bucket            begin ─► first exchange ──► middle ─► second ───┼─ all done ─► end, for each bucket
 *     left alone          └─ averaged with the first exchange ──────────┘
 *
 * Invariants
 *   1. Ranks start exchanges in one order: all first ones in the order of buckets, then all second
 *      ones. The order depends on nothing that a rank does at its own time.
 *   2. Until all exchanges of a step have succeeded, nothing of the state changes: begin and middle
 *      write into gradients and exchange buffers only. `end` cannot fail.
 *   3. `end` writes into gradients only results of bytes that are the same on all ranks.
 */
#ifndef TUTTI_TRAIN_COMPRESS_STATE_H
#define TUTTI_TRAIN_COMPRESS_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "tutti/train/compress.h"

struct compress_tensor {
    char *name;
    float *data;
    size_t rows, columns, count; /* elements */
    uint64_t seed;
    bool is_compressed, is_finite; /* finite: in this step; the same on all ranks */
    float *residual;               /* of this rank; NULL: none */
    int rank;                      /* LOW_RANK: columns of the factors */
    float *basis;                  /* LOW_RANK: Q with columns of length 1, in basis_memory */
    float *p, *q;                  /* LOW_RANK: exchange buffers, of the bucket */
    size_t selected;               /* TOP_K: elements that a rank sends */
    size_t own_first, own_count;   /* ENCODED: the range that this rank owns */
    float *owner;                  /* ENCODED: the residual of that range; NULL: none */
};

/* State is of another kind if one of these differs: method, encoding, and whether there is feedback. */
enum { COMPRESS_METHOD_NUMBERS = 3 };

/* The exchanges of a bucket. */
enum compress_exchange { EXCHANGE_PLAIN, EXCHANGE_FIRST, EXCHANGE_SECOND, EXCHANGES };

struct compress_bucket {
    size_t first, count; /* of tensors */
    size_t missing;      /* tensors that are not ready in this step */
    /* Averaged as they are: tensors that are left alone, and what the method adds. */
    struct tutti_tensor *plain;
    size_t plain_count;
    void *memory;            /* exchange buffers */
    size_t payload_bytes;    /* TOP_K: of a rank's selections; ENCODED: of what a rank owns */
    size_t own_offset;       /* ENCODED: of what this rank owns, in the message */
    unsigned char *received; /* ENCODED: of all ranks */
    float *owner_next;       /* ENCODED: residuals of the owner, if this step succeeds */
    struct tutti_prepared *prepared[EXCHANGES]; /* NULL: nothing to exchange */
    struct tutti_request *requests[EXCHANGES];  /* NULL: not started, or waited for */
};

struct tutti_compressor {
    struct tutti_compressor_options options;
    const struct compress_method *method;
    struct tutti_comm *comm;
    int rank, size;
    bool starts_when_full; /* or at finish */
    struct compress_tensor *tensors;
    size_t tensor_count;
    struct compress_bucket *buckets;
    size_t bucket_count;
    struct tutti_tensor *plain; /* of all buckets */
    float *basis_memory;        /* LOW_RANK: Q of all tensors, in their order */
    size_t basis_count;
    uint32_t *room; /* TOP_K: for selecting */
    uint64_t steps, payload_bytes;
    /* A checkpoint has this beside the state: the number of ranks, and the method. */
    uint64_t saved_ranks, saved_method[COMPRESS_METHOD_NUMBERS];
    char (*part_names)[200];   /* of parts for checkpoints: three a tensor */
    pthread_mutex_t lock;      /* protects the rest, between begin and end of a step */
    bool is_broken, has_given; /* given: its state, to another compressor */
    enum tutti_status status;  /* of the first start in this step that failed */
    size_t next;               /* the first bucket that has not started in this step */
    unsigned char *is_ready;   /* of each tensor */
};

struct compress_method {
    const char *name;
    /* How many bytes a rank sends of the tensor; 0: it cannot be compressed. Sets what the tensor
     * needs to know for that. */
    size_t (*measure)(const struct tutti_compressor *c, struct compress_tensor *tensor);
    /* Makes the exchange buffers, and prepares the exchanges. EXCHANGE_PLAIN is prepared later,
     * from bucket->plain, to which this may add one tensor. */
    enum tutti_status (*prepare)(struct tutti_compressor *c, struct compress_bucket *bucket);
    /* Corrects the gradients by their residuals, in place, and fills the first exchange's buffer. */
    void (*begin)(struct tutti_compressor *c, struct compress_bucket *bucket);
    /* From the first exchange's results to the second exchange. */
    enum tutti_status (*middle)(struct tutti_compressor *c, struct compress_bucket *bucket);
    /* Sets gradients to the decoded averages, and state to that of the next step. Returns how many
     * tensors were not finite. */
    size_t (*end)(struct tutti_compressor *c, struct compress_bucket *bucket);
};

extern const struct compress_method compress_none, compress_low_rank, compress_top_k,
    compress_encoded;

/* Memory for the exchanges of a bucket: zeros, until the compressor is freed. */
enum tutti_status compress_allocate(struct compress_bucket *bucket, size_t bytes);
/* The options of an exchange. No rule of the communicator encodes it: what is exchanged was rounded
 * by the method already, and its residual counts on that. options are the compressor's. */
struct tutti_call_options compress_call_options(const struct tutti_compressor_options *options);
/* Whether state may be moved, saved and loaded now; function is that of the interface. */
enum tutti_status compress_check_rest(const struct tutti_compressor *c, const char *function);

#endif
