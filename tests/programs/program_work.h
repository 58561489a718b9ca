/* program_work.h - one call or message step of a program on one rank: its buffers, the call in its
 * form, and the expected result.
 *
 *     init          buffers
 *     begin         fills them, and calls; a blocking call is done then, unless it is in a group
 *     wait          until one request is done; request_count of them, in any order
 *     complaint     says what is wrong, when all is done
 *     release       gives everything back, when nothing is under way
 *
 * A prepared call can begin again, with other contents, when it is done. One thread at a time.
 * Waits have the deadlines of the communicator.
 */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_WORK_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_WORK_H

#include <stdbool.h>

#include "tests/kit/form.h"
#include "tests/kit/spread.h"
#include "tests/programs/program.h"
#include "tests/programs/program_plans.h"

/* A communicator of the program, on a rank that is in it. */
struct program_comm {
    struct tutti_comm *comm; /* NULL: this rank is not in it, or there is none */
    struct tutti_mesh *mesh; /* the communicator is of this mesh; or NULL */
    int rank, size;
    int members[PROGRAM_RANKS_MAX]; /* the members' ranks in the first world */
};

enum { PROGRAM_REQUESTS_MAX = 2 * PROGRAM_RANKS_MAX };

struct program_work {
    const struct random_step *step; /* NULL: not in use */
    const struct program_comm *on;
    int index;              /* of the step: tags of messages follow from it */
    int turn;               /* how often it has begun */
    bool is_open;           /* it has begun, and has not been judged */
    struct spread sides[2]; /* of send, recv; in place only the larger one */
    size_t blocks[2];       /* of a collective */
    struct tutti_tensor *tensors[2];
    struct tutti_list lists[2];
    struct form_call call;
    struct tutti_call_options options;
    char algorithm[PROGRAM_ALGORITHM_BYTES]; /* what the options name */
    char encoding[48];
    tutti_op op;
    /* Requests: one of a collective; of messages, the receiving ones come first. */
    int request_count, receive_count;
    struct tutti_request *requests[PROGRAM_REQUESTS_MAX];
    struct tutti_prepared *prepared;
    enum tutti_status statuses[PROGRAM_REQUESTS_MAX];
    struct tutti_message messages[PROGRAM_REQUESTS_MAX];
    int sources[PROGRAM_REQUESTS_MAX],
        tags[PROGRAM_REQUESTS_MAX]; /* what the messages ought to say */
};

/* False: no memory. `on` stays where it is. */
bool program_work_init(struct program_work *work, const struct random_step *step, int index,
                       const struct program_comm *on);
enum tutti_status program_work_begin(struct program_work *work, bool grouped);
/* Waits for one request: TUTTI_OK also if a receive ended with another status, as it must. polls:
 * calls tutti_test instead, and may return IN_PROGRESS. */
enum tutti_status program_work_wait(struct program_work *work, int request, bool polls);
/* Where the contents of a block begin in the tables of elements.h: different for each step, turn
 * and block. */
size_t program_work_index(const struct program_work *work, int block);
/* The input of a rank for a step that goes encoded and reduces nothing: numbers, and not any bytes. */
void program_work_given(const struct program_work *work, int rank, struct elements *table);
/* How far from the input a result may be, with an encoding or without. */
double program_work_tolerance(const struct program_work *work);
/* A number for the bits of a result that all ranks of the communicator have alike; false: the step
 * has none. After program_work_complaint, which found nothing. */
bool program_work_replica(struct program_work *work, uint64_t *number);
/* NULL: all is right. */
const char *program_work_complaint(struct program_work *work, char text[160]);
void program_work_release(struct program_work *work);

#endif
