/* proof_file.h - proofs of plans that took long, kept for the user's other processes.
 *
 *     ~/.cache/tutti/proofs/FINGERPRINT-VERSION.proof:   the result of the proof, and the plan
 *
 * 1. An entry counts if it has the plan word for word: fingerprints may be equal by chance, or by
 *    intent.
 * 2. VERSION is that of the library and of its proof (VERIFY_VERSION): the proofs of another one do
 *    not count.
 * 3. The folder must belong to this user, and be closed to all others; an entry must belong to this
 *    user or to root, and no other user may be able to write it. So only the user whose processes
 *    run a plan could make a wrong one run.
 * 4. The folder holds the PROOFS_MAX entries that were kept or found last, and PROOF_BYTES_MAX:
 *    keeping one removes what is beyond.
 * 5. Without a folder, or with one that fails, plans are proven each time: nothing else changes.
 */
#ifndef TUTTI_FORMAT_PROOF_FILE_H
#define TUTTI_FORMAT_PROOF_FILE_H

#include <stdbool.h>

#include "algo/loaded.h"

/* As many as plans that one folder may have, of each of two versions. */
enum { PROOFS_MAX = 512, PROOF_BYTES_MAX = 256 << 20 };

/* Whether there is a proof of it. This thread's error stays as it was. Blocks as long as the file
 * system does. */
bool proof_file_find(const struct algorithm *algorithm, struct loaded_proof *proof);
/* Keeps one. Best effort; waits for the file system for a second at most, unless that hangs after
 * it has written. This thread's error stays as it was. */
void proof_file_keep(const struct algorithm *algorithm, const struct loaded_proof *proof);

#endif
