/* secret.h - what the ranks of a job know and others do not: the key of their hellos.
 *
 *     TUTTI_SECRET        the secret itself
 *     TUTTI_SECRET_FILE   a file that has it, of this user or root and closed to all others (mode 600, say); a newline at its end
 *                         does not count
 *
 * Without either the key follows from the job's run id. That keeps jobs apart and drops strays, but
 * any process that can read or guess the id can join: then is_secret is false.
 */
#ifndef TUTTI_BOOTSTRAP_SECRET_H
#define TUTTI_BOOTSTRAP_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "bootstrap/mac.h"
#include "tutti/tutti.h"

enum { SECRET_BYTES_MAX = 4096 };

struct secret_key {
    unsigned char bytes[MAC_BYTES];
    bool is_secret;
};

/* From the environment, or else from the run id (NULL: ""). INVALID_OPTIONS: the variables make no
 * sense, or the file cannot be read; the message never has the secret. */
enum tutti_status secret_read(const char *run_id, struct secret_key *key);
/* The same bytes give the same key; a secret and a run id never do. INVALID_OPTIONS: none or too
 * many bytes. */
enum tutti_status secret_from_bytes(const void *secret, size_t bytes, struct secret_key *key);
enum tutti_status secret_from_run(const char *run_id, struct secret_key *key);

#endif
