/* program_message.h - the messages of a step, for program_work.c. */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_MESSAGE_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_MESSAGE_H

#include "tests/programs/program_work.h"

bool program_message_init(struct program_work *work);
enum tutti_status program_message_begin(struct program_work *work, bool grouped);
/* Why a message is not as it must be; NULL: all are. Adds the contents of the messages to the
 * expected contents. */
const char *program_message_complaint(struct program_work *work);

#endif
