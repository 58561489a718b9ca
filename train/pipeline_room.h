/* pipeline_room.h - how many buffers a stage needs for a schedule, so that none ever waits for one for ever.
 *
 *     forward  ┐                                      ┌─ from before its receive is started until the backward pass is over
 *              ├─ receives: input activations ........┘  the most in flight, and one more, whose receive is started ahead
 *              └─ sends: output activations ............. from the pass until the message has left: a ring
 *     backward ┌─ receives: output gradients ............ two: one in use, one whose receive is started ahead
 *              └─ sends: input gradients ................ a ring
 *
 * Receives are started in the order of their passes, each as soon as a buffer is free. So the next pass of a stage always has, or can
 * have, the buffers that it receives in, and only rings could hold a stage up. How large they must be, a run of the schedule tells,
 * in which all stages move at the same pace: with rings of the most that they have there, that very run is possible. And where one order
 * of events is possible, no other one comes to a halt, because nothing that a stage does takes from another what it waits for.
 *
 * With one stage nothing is sent. The result of a part then lies in the buffer of a receive until the next part is done with it.
 */
#ifndef TUTTI_TRAIN_PIPELINE_ROOM_H
#define TUTTI_TRAIN_PIPELINE_ROOM_H

#include "schedule.h"

/* Numbers of buffers, by the direction of what lies in them: activations for TUTTI_PASS_FORWARD, gradients for TUTTI_PASS_BACKWARD. */
struct pipeline_room {
    int receives[2];
    int sends[2];
};

/* For one stage of a schedule. INVALID_OPTIONS: it cannot run; NO_MEMORY. */
enum tutti_status pipeline_room(const struct tutti_schedule *schedule, int stage,
                                struct pipeline_room *room);

#endif
