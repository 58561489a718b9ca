/* msccl_xml.h - MSCCL's schedules as plans: reads the XML of MSCCL and of RCCL.
 *
 * A GPU becomes a rank, a thread block a lane (where there are too many, those that never work side
 * by side share one), a channel the channel of a link, depid and deps become `after`. A `nop` is
 * not a step: what it waits for, the next step of its block waits for. Operands of a reduction come
 * as (src, received).
 *
 * Every plan is proven (plan/verify.h) before it is called good, in place or with separate buffers
 * as the file says. Not expressible are:
 *   - stores to the input where it is not the output's memory, too: a plan only reads its input,
 *   - memory that holds one chunk now and another one later,
 *   - a step that completes the reduction of some of its chunks and not of the others,
 *   - replicas that are added up in different orders: their bits may differ,
 *   - some stores to memory that was sent from. MSCCL copies what it sends, a plan sends from where
 *     the data lies; a copy to scratch is put into the plan, and mostly does,
 *   - more thread blocks that work side by side, or channels between two GPUs, than a plan has
 *     lanes and channels; collectives that Tutti has not.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_XML_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_XML_H

#include <stddef.h>

#include "plan/plan.h"
#include "studio/foreign/msccl_report.h"

enum { MSCCL_XML_BYTES_MAX = 1 << 26 };

/* Reads foreign text. *report is filled either way; only where it says MSCCL_PROVEN is *plan one,
 * for plan_free, and otherwise NULL. Any thread; takes as long as the proof does. */
void msccl_xml_load(const char *text, size_t text_bytes, struct plan **plan,
                    struct msccl_report *report);

#endif
