/* explain_encoding.h - whether a call or a message is encoded, and how often that rounds a result, in
 * words. */
#ifndef TUTTI_COMM_EXPLAIN_ENCODING_H
#define TUTTI_COMM_EXPLAIN_ENCODING_H

#include "call/communicator.h"
#include "call/encoded.h"
#include "tune/choose.h"

enum { EXPLAIN_ENCODING_SIZE = 256 };

/* Up to so many ranks the plan of the choice is made and looked at; it would take too long for
 * more. */
enum { EXPLAIN_ENCODING_RANKS = 64 };

/* A line such as "  bfloat16 on links between hosts, required: contributions are rounded up to 3
 * times on their way to a result"; empty where there is no wish. NO_MEMORY, or the error of the
 * algorithm. */
enum tutti_status explain_encoding(const struct tutti_comm *comm, const struct choice *choice,
                                   const struct call_encoding *encoding,
                                   char text[static EXPLAIN_ENCODING_SIZE]);

/* The same of a message that this rank sends to `peer`; wish: of the call, packed; 0: the rules
 * decide. Never empty. NO_MEMORY. */
enum tutti_status explain_message_encoding(const struct tutti_comm *comm, uint16_t wish,
                                           enum tutti_dtype dtype, size_t bytes, int peer,
                                           char text[static EXPLAIN_ENCODING_SIZE]);

#endif
