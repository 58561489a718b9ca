/* table_json.h - a table of measured choices as JSON, which tutti-tune writes, and people read
 * and correct.
 *
 *     { "tutti_table": 1,
 *       "loaded": false,
 *       "entries": [
 *         {"ranks": 8, "hosts": 2, "racks": 1, "loopback": false,
 *          "collective": "allreduce", "dtypes": "plain", "memory": "private", "from_bytes": 4096,
 *          "to_bytes": 16384, "algorithm": "twoshot", "only_hosts": false, "time_ns": 12345,
 *          "faster_permille": 120}, ... ] }
 *
 * docs/how-to/calibration.md describes every member. A later entry wins where two overlap. Unknown
 * members are left alone, for a table may come from a later version; an unknown name as the value
 * of a member is refused.
 */
#ifndef TUTTI_FORMAT_TABLE_JSON_H
#define TUTTI_FORMAT_TABLE_JSON_H

#include <stdio.h>

#include "tune/table.h"

enum { TABLE_JSON_BYTES_MAX = 4 << 20 };

/* Reads foreign text into *table, which tune_table_init has made; its former content is gone then.
 * INVALID_OPTIONS: the message says in which line the mistake is and what is expected; UNSUPPORTED:
 * the text is too large; NO_MEMORY. On failure *table is unchanged. Any thread. */
enum tutti_status table_json_load(const char *text, size_t text_bytes, struct tune_table *table);
/* Writes what table_json_load reads back as it is. */
void table_json_dump(const struct tune_table *table, FILE *file);

/* "plain" and so on. */
const char *table_json_dtypes(enum calibration_class dtypes);
/* "mapped" or "private". */
const char *table_json_memory(bool is_mapped);

#endif
