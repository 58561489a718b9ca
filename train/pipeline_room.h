/* pipeline_room.h - the number of buffers that a stage needs for a schedule, so that no stage waits
 * for a buffer for ever.
 *
 *     forward  ┐                                      ┌─ from before its receive is started until the backward pass is over
 *              ├─ receives: input activations ........┘  the most in flight, and one more, whose receive is started ahead
 *              └─ sends: output activations ............. from the pass until the message has left: a ring
 *     backward ┌─ receives: output gradients ............ two: one in use, one whose receive is started ahead
 *              └─ sends: input gradients ................ a ring
 *
 * Receives are started in the order of their passes, each as soon as a buffer is free. So the next
 * pass of a stage always has, or can have, the buffers that it receives in, and only rings could
 * hold a stage up. A run of the schedule in which all stages move at the same pace shows how large
 * they must be: if each ring is as large as the most that it holds there, that very run is
 * possible. If one order of events is possible, no other order comes to a halt, because no action
 * of a stage takes from another stage what it waits for.
 *
 * With one stage, nothing is sent. The result of a part then lies in the buffer of a receive until
 * the next part is done with it.
 */
#ifndef TUTTI_TRAIN_PIPELINE_ROOM_H
#define TUTTI_TRAIN_PIPELINE_ROOM_H

#include "schedule.h"

/* Numbers of buffers, by the direction of their contents: activations for TUTTI_PASS_FORWARD,
 * gradients for TUTTI_PASS_BACKWARD. */
struct pipeline_room {
    int receives[2];
    int sends[2];
};

/* Computes the room for one stage of a schedule. INVALID_OPTIONS: the schedule cannot run;
 * NO_MEMORY. */
enum tutti_status pipeline_room(const struct tutti_schedule *schedule, int stage,
                                struct pipeline_room *room);

#endif
