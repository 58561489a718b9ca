/* msccl_depth.h - how many messages a connection must hold for an exported plan to come to its end.
 *
 *     rank 0 ──[ ]──► rank 1 ──[ ]──► rank 2 ──[ ]──► rank 0      each connection holds a message, and each rank wants to pass
 *                                                                 one on: with room for one, nobody
 *                                                                 can
 *
 * A plan is proven with one message a link, and a step takes what comes before it needs room for
 * what goes. A fused step of MSCCL may do both at once, piece by piece: then it takes a message
 * only when there is room for what it sends. So a circle of such steps needs more room.
 *
 * It runs the plan so, as the exporter unfolds it (msccl_export.h): of several messages a step
 * receives all but the last one by themselves, and sends all but the first by themselves.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_DEPTH_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_DEPTH_H

#include "plan/plan.h"
#include "plan/wiring.h"
#include "tutti/tutti.h"

enum { MSCCL_DEPTH_MAX = 64 };

/* The least depth, from 1 on, of a proven plan with its wiring; 0: more than MSCCL_DEPTH_MAX.
 * NO_MEMORY leaves 0. Any thread; pure. */
enum tutti_status msccl_depth(const struct plan *plan, const struct wiring *wiring, int *depth);

#endif
