/* rules.h - the user's word on algorithms, in NCCL's form extended by sizes:
 *
 *     allreduce:0-64k=oneshot,64k-=ring;broadcast=^tree
 *
 * For each collective a list of `FROM-TO=NAME`: bytes of a block, FROM included, TO not; either may
 * be left out; k, m, g are powers of 1024; NAME may carry a radix ("bruck/4"). Without a range the
 * name holds for all sizes; `^NAME` forbids it. A later entry wins over an earlier one.
 *
 * `file:PATH` in the place of a name is the plan in that file; the path ends before a comma or
 * semicolon. This module reads no files: the code that does sets the algorithm, and until then such
 * a rule does not count.
 *
 * Rules for encodings have the same form, with a wish (encoding_wish.h) in the place of a name:
 *
 *     allreduce:64k-=bfloat16/hosts/required;send=bfloat16
 *
 * `send` in the place of a collective means messages, of send and recv.
 */
#ifndef TUTTI_TUNE_RULES_H
#define TUTTI_TUNE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "base/collective.h"
#include "base/encoding_wish.h"
#include "tutti/tutti.h"

struct rules; /* opaque */

/* Messages, in the place of a collective; in rules for encodings alone. */
#define RULES_MESSAGES COLLECTIVE_COUNT

/* Text is foreign: names are checked against the algorithm list, lengths are bounded.
 * INVALID_OPTIONS says what and where. NULL or "" gives *rules == NULL. */
enum tutti_status rules_parse(const char *text, struct rules **rules);
/* The same for rules for encodings. */
enum tutti_status rules_parse_encodings(const char *text, struct rules **rules);
void rules_free(struct rules *rules);
/* The rules with a file, in their order. *path belongs to the rules. */
int rules_file_count(const struct rules *rules);
void rules_file(const struct rules *rules, int index, enum collective *collective,
                const char **path);
/* The algorithm lives at least as long as the rules; NULL: the rule does not count. */
void rules_set_file(struct rules *rules, int index, const struct algorithm *algorithm);
/* Whether an algorithm is asked for, and which. */
bool rules_wanted(const struct rules *rules, enum collective collective, size_t bytes,
                  const struct algorithm **algorithm, unsigned *radix);
/* The wish for a call (or RULES_MESSAGES), of rules for encodings; false: there is none. */
bool rules_encode(const struct rules *rules, enum collective collective, size_t bytes,
                  struct encoding_wish *wish);
bool rules_forbids(const struct rules *rules, enum collective collective, size_t bytes,
                   const char *name);

#endif
