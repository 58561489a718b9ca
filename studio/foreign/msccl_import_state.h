/* msccl_import_state.h - the state of an import (msccl_import.c), and the functions that its files
 * share.
 *
 *     msccl_import.c           begins, makes the plan, more than once if need be, and ends
 *     msccl_import_wire.c      which block takes whose messages; whether the file's numbers fit each other
 *     msccl_import_run.c       runs the file on contributions: what does each chunk hold?
 *     msccl_import_lanes.c     which lane of the plan a block gets
 *     msccl_import_write.c     writes the plan, with the findings of the run
 *     msccl_import_prove.c     proves it, and translates the verifier's words
 *     msccl_import_buffers.c   which memory a chunk is
 *     msccl_import_refuse.c    refusals, which name a step as the file does
 *
 * Functions that return bool return false when they have refused the file: the report says why.
 * One thread; msccl_import frees all memory at the end.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_IMPORT_STATE_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_IMPORT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"
#include "studio/foreign/msccl_algo.h"
#include "studio/foreign/msccl_report.h"

/* In place of the class of a chunk. */
enum {
    MSCCL_NOTHING = -1, /* nobody wrote there */
    MSCCL_MIXTURE = -2, /* several classes were added */
    MSCCL_UNKNOWN = -3  /* behind a fault that was told */
};
enum { MSCCL_RACES_MAX = 16 };

struct msccl_held {
    int class; /* or one of the numbers above */
    int count; /* contributions */
};

struct msccl_cell {
    struct msccl_held held;
    int writer; /* the last step that stored here; -1: the application */
};

/* Two steps that nothing orders. */
struct msccl_race {
    int step, other; /* the other one is a step of any gpu; -1: there is none */
};

/* The findings of the run about one step. */
struct msccl_finding {
    bool final;
    struct plan_location source, destination; /* places of the plan */
};

struct msccl_importer {
    const struct msccl_algo *algo;
    struct msccl_report *report;
    struct msccl_report note; /* the first thing that a plan cannot say */
    struct plan_shape shape;

    int *partners;      /* for each block: the block that it receives from, or -1 */
    int *send_lists;    /* the steps that send, of one block side by side, in order */
    int *first_sends;   /* of each block, and one more */
    int *taken;         /* of each block: messages it has received */
    int *done;          /* of each block: steps */
    int *block_of;      /* of each step */
    size_t *first_sent; /* of each step: in `sent` */
    struct msccl_held *sent;
    struct msccl_cell *cells;
    size_t *first_cells; /* of each gpu: input, output, scratch */
    int **scratch_like;  /* of each gpu: the class of each scratch chunk, or MSCCL_NOTHING */
    struct msccl_finding *findings;
    uint32_t *handles; /* of each step: in its rank's plan, in order of emission */
    int *emitted; /* steps of each gpu, in the order of its plan; a gpu begins at twice its first step */
    int *sent_writers;      /* beside `sent`: the step that had written the memory that was sent */
    bool stages;            /* copies what it sends, where the memory is written to later */
    bool needs_copies;      /* copies are lacking, which may be why there was no proof */
    struct msccl_race race; /* the reason why there was no proof, unless its step is -1 */
    struct msccl_race told[MSCCL_RACES_MAX]; /* taken to be ordered, so that the proof finds others */
    int told_count;
    int *run_order; /* all steps, as the run met them */
    int run_count;
    int *lane_of;  /* of each block: in its rank's plan */
    int *channels; /* of each block: the channel of the plan on which it sends */
    int *stack;    /* of steps */
    int *was_seen; /* of each step that is a nop: 1 + the step for which it was, last */
};

static inline const struct msccl_block *msccl_import_block_at(const struct msccl_importer *importer,
                                                              int step)
{
    return &importer->algo->blocks[importer->block_of[step]];
}

static inline int msccl_import_number_of_block(const struct msccl_importer *importer,
                                               const struct msccl_block *block)
{
    return (int)(block - importer->algo->blocks) - importer->algo->gpus[block->gpu].first_block;
}

static inline int msccl_import_first_step_of(const struct msccl_importer *importer, int gpu)
{
    const struct msccl_gpu *of = &importer->algo->gpus[gpu];
    return of->block_count > 0 ? importer->algo->blocks[of->first_block].first_step : 0;
}

static inline int msccl_import_step_count_of(const struct msccl_importer *importer, int gpu)
{
    const struct msccl_gpu *of = &importer->algo->gpus[gpu];
    int count = 0;
    for (int i = 0; i < of->block_count; i++)
        count += importer->algo->blocks[of->first_block + i].step_count;
    return count;
}

/* msccl_import_refuse.c. All but note_step return false, for the caller to return. */

/* Refuses a step in that report; `why` is the whole reason, without conversions. */
bool msccl_import_refuse_step(const struct msccl_importer *importer, struct msccl_report *report,
                              enum msccl_verdict verdict, int step, const char *why);
/* The file is wrong at that step. */
__attribute__((format(printf, 3, 4))) bool
msccl_import_wrong_step(const struct msccl_importer *importer, int step, const char *format, ...);
/* A plan cannot say that step. This is only noted, and the import goes on. */
__attribute__((format(printf, 3, 4))) void msccl_import_note_step(struct msccl_importer *importer,
                                                                  int step, const char *format, ...);
/* Refuses a gpu; -1: the file as a whole. */
bool msccl_import_refuse_all(const struct msccl_importer *importer, enum msccl_verdict verdict,
                             int gpu, const char *why);
bool msccl_import_out_of_memory(const struct msccl_importer *importer);

/* "tb 1 step 0", with its gpu unless that is `gpu`. */
struct msccl_step_name {
    char text[48];
};
struct msccl_step_name msccl_import_name_of(const struct msccl_importer *importer, int step,
                                            int gpu);

/* msccl_import_buffers.c */

/* The output chunk that is the same memory as that input chunk; -1: there is none. */
int msccl_import_output_of_input(const struct msccl_importer *importer, int gpu, int chunk);
/* The other way round. */
int msccl_import_input_of_output(const struct msccl_importer *importer, int gpu, int chunk);
int msccl_import_chunks_of(const struct msccl_importer *importer, int gpu, enum msccl_buffer buffer);
enum plan_buffer msccl_import_buffer_of(enum msccl_buffer buffer);
struct msccl_cell *msccl_import_cell_at(const struct msccl_importer *importer, int gpu,
                                        enum msccl_buffer buffer, int chunk);

/* msccl_import_wire.c. Fills in partners, send_lists, first_sends and block_of. */
bool msccl_import_wire(struct msccl_importer *importer);

/* msccl_import_run.c. Fills in what holds chunks, findings and run_order. */
bool msccl_import_run(struct msccl_importer *importer);

/* msccl_import_lanes.c. Fills in lane_of for the blocks of that gpu. */
bool msccl_import_choose_lanes(struct msccl_importer *importer, int gpu);

/* msccl_import_write.c */

/* Writes into a plan that is all zeroes; the caller frees it whatever becomes of it. */
bool msccl_import_write(struct msccl_importer *importer, struct plan *plan);
/* How many steps of the plan that step of the file becomes. */
int msccl_import_steps_in_plan(const struct msccl_importer *importer, int step);

/* msccl_import_prove.c. True: the plan is proven. False: the report says why not, or the reason
 * does not count, since races that were told were taken to be ordered. */
bool msccl_import_prove(struct msccl_importer *importer, const struct plan *plan);

#endif
