/* embedding.c - a table of embeddings that the ranks share, trained by the gradients of the rows
 * that a batch uses.
 *
 *     tutti-run -n 3 embedding
 *
 * Each step, every rank draws words (some often, most seldom), looks up their rows, and pushes a
 * gradient for each of them to the owner of the row. The gradient pulls a row towards the number of
 * its word, so that after some steps every row that was used is near that number.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tutti/sparse.h"
#include "tutti/tutti.h"

enum { WORDS = 1000, WIDTH = 8, BATCH = 256, STEPS = 60 };

static void check(enum tutti_status status)
{
    if (status == TUTTI_OK) return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_error_message());
    exit(1);
}

/* Low words are drawn more often. */
static int64_t draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    const double share = (double)(*state >> 8) / (1 << 24);
    return (int64_t)(share * share * WORDS);
}

/* Rows that are used in this step come from their owners; the gradients go there. */
static double train(struct tutti_comm *comm, struct tutti_sparse_table *table, float *own,
                    size_t first, unsigned *state)
{
    static int64_t words[BATCH];
    static float rows[BATCH][WIDTH], gradients[BATCH][WIDTH];
    double loss = 0;
    for (int i = 0; i < BATCH; i++) words[i] = draw(state);
    check(tutti_sparse_pull(table, words, BATCH, rows, NULL, comm));
    for (int i = 0; i < BATCH; i++)
        for (int c = 0; c < WIDTH; c++) {
            gradients[i][c] = rows[i][c] - (float)words[i] / WORDS;
            loss += gradients[i][c] * gradients[i][c] / (BATCH * WIDTH);
        }

    /* A word that was drawn several times, here or elsewhere, gets the sum of its gradients, divided
     * by the number of ranks. */
    struct tutti_sparse_rows pushed = {WORDS, WIDTH, TUTTI_FLOAT32, BATCH, words, gradients}, sum;
    struct tutti_sparse *result;
    check(tutti_sparse_push(&pushed, TUTTI_AVG, NULL, comm, &result));
    check(tutti_sparse_view(result, &sum));
    const float *const gradient = sum.values;
    for (size_t i = 0; i < sum.count; i++)
        for (size_t c = 0; c < WIDTH; c++) {
            float *const at = own + ((size_t)sum.indices[i] - first) * WIDTH + c;
            *at -= 0.2f * gradient[i * WIDTH + c];
        }
    check(tutti_sparse_free(result));
    return loss;
}

int main(void)
{
    struct tutti_comm *comm;
    size_t first, count;
    check(tutti_comm_create(NULL, &comm)); /* rank and size from tutti-run */
    const int rank = tutti_comm_rank(comm);
    check(tutti_sparse_range(WORDS, tutti_comm_size(comm), rank, &first, &count));
    float *const own = calloc(count + 1, WIDTH * sizeof *own);
    if (own == NULL) return 1;
    struct tutti_sparse_table table = {WORDS, WIDTH, TUTTI_FLOAT32, own};

    unsigned state = 1 + (unsigned)rank;
    double losses[2] = {0, 0}; /* in the first step, and in the last */
    for (int step = 0; step < STEPS; step++)
        losses[step > 0] = train(comm, &table, own, first, &state);
    check(tutti_allreduce(losses, losses, 2, TUTTI_FLOAT64, TUTTI_AVG, comm));

    printf("rank %d owns rows %zu to %zu; the loss fell from %.4f to %.4f\n", rank, first,
           first + count - 1, losses[0], losses[1]);
    free(own);
    check(tutti_comm_free(comm));
    return losses[1] < losses[0] / 2 ? 0 : 1;
}
