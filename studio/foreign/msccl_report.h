/* msccl_report.h - what became of an MSCCL file, and where.
 *
 * A file is *wrong* when it violates the format, or when the verifier disproves it. It is *not
 * expressible* when it may well be right, but a plan cannot say it: nothing is claimed about it
 * then.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_REPORT_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_REPORT_H

#include <stdbool.h>

enum msccl_verdict {
    MSCCL_PROVEN,
    MSCCL_WRONG,
    MSCCL_NOT_EXPRESSIBLE,
    MSCCL_NOT_KNOWN /* out of memory, or Tutti was built without expat */
};

/* Texts of faults behind the first one. */
enum { MSCCL_MESSAGE_BYTES = 320, MSCCL_FURTHER_MAX = 15 };

struct msccl_report {
    enum msccl_verdict verdict;
    int line;              /* 0: none */
    int gpu, block, step;  /* as the file counts them; -1: none */
    bool in_place;         /* as the file says, and as was proven */
    bool proven_otherwise; /* proven, too: in place what is not, and the other way round */
    char message[MSCCL_MESSAGE_BYTES]; /* "line 7: gpu 2 tb 0 step 5 (rcs): ..." */
    int further_count; /* further faults: the number of them; the first ones have texts here */
    char further[MSCCL_FURTHER_MAX][MSCCL_MESSAGE_BYTES];
};

/* Fills in what is wrong; where something was before, this counts only if both are MSCCL_WRONG, as
 * a further fault. Returns false, for the caller to return. */
__attribute__((format(printf, 7, 8))) bool msccl_refuse(struct msccl_report *report,
                                                        enum msccl_verdict verdict, int line,
                                                        int gpu, int block, int step,
                                                        const char *format, ...);

#endif
