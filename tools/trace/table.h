/* table.h - prints measured and predicted calls: as a table for people, with
 * conclusions, and in a form for programs.
 *
 * Below a call only conclusions are printed that its dumps show:
 *
 *     they say                         if
 *     rank R came last, T after ..     the same rank did in more than half of the calls, by a tenth
 *                                      of their time and more. Between hosts: if the time that
 *                                      ranks were in the call says so, too, or else with the words
 *                                      that clocks say it
 *     rank R waited least, by T ..     the same, where clocks cannot be compared
 *     as if the cards had X% ..        the calls took more than 1.2 times as long as predicted, and
 *                                      cards would be busy for half of that and more; between hosts
 *                                      also by the time of the rank that waited least
 *     as if rank R received at X% ..   besides, R ended last in more than half of the calls, has
 *                                      its host for itself, and the others ended in the predicted
 *                                      time: so what R sent them came in time, and what it got did
 *                                      not. X is the rate of its host with which the model predicts
 *                                      the measured time
 */
#ifndef TUTTI_TOOLS_TRACE_TABLE_H
#define TUTTI_TOOLS_TRACE_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "calls.h"
#include "compared.h"
#include "predict.h"

struct comparison {
    const struct trace_calls *found;
    const struct predictor *predictor;
    const struct compared *rows; /* of each kind, in order */
    const char *calibration;     /* the file, or NULL */
    int top;                     /* lines of calls, and of ranks, at most */
};

/* NO_MEMORY. */
enum tutti_status print_comparison(const struct comparison *comparison, FILE *file);
void print_comparison_csv(const struct comparison *comparison, bool with_head, FILE *file);
/* Lines with the numbers that predictions are made of. */
void print_numbers(const struct comparison *comparison, FILE *file);
/* A line for each conclusion on one row, indented; without a prediction, of lateness alone.
 * NO_MEMORY. */
enum tutti_status print_conclusions(const struct comparison *comparison, const struct compared *row,
                                    FILE *file);
/* One line that says how times of hosts are compared, or nothing if all ranks are on one host. */
void print_clocks(const struct trace_calls *calls, FILE *file);
/* The parts that dumps lack, and the calls that are left out because of that; nothing if there are
 * none. */
void print_left_out(const struct trace_calls *calls, FILE *file);

#endif
