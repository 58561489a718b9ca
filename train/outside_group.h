/* outside_group.h - calls that exchange something in the middle of their work: between
 * tutti_group_begin and tutti_group_end their blocking exchanges would only start, read what has
 * not come yet, and write later into memory that is no longer theirs. */
#ifndef TUTTI_TRAIN_OUTSIDE_GROUP_H
#define TUTTI_TRAIN_OUTSIDE_GROUP_H

#include "base/status.h"

/* INVALID_REQUEST: this thread has a group open. function is the caller's name in the interface,
 * with which the message begins. Call it before anything has changed. */
enum tutti_status outside_group(const char *function);

#endif
