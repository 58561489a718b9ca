/* trace_choices.h - what dumps and answers say of choices: which algorithms calls got, why, and
 * what was expected of them. */
#ifndef TUTTI_HEALTH_TRACE_CHOICES_H
#define TUTTI_HEALTH_TRACE_CHOICES_H

#include <stdio.h>

#include "health/choices.h"

/* The members "choices", "unused_plans" and "unused_plans_left_out", and a comma and a line's end
 * behind each. A communicator that has chosen nothing has an empty "choices". The recorder tells
 * how many of the last calls had each choice, and how long the middle one took. Any thread. */
void trace_put_choices(FILE *file, const struct choices *choices, const struct recorder *recorder);
/* A member for an entry of a call: what was expected of it; nothing where that is not known. */
void trace_put_expected(FILE *file, const struct choices *choices, const struct record *call);

#endif
