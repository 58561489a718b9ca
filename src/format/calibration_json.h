/* calibration_json.h - a calibration as JSON, which tutti-topo --calibrate writes, and people
 * read and correct.
 *
 *     { "tutti_calibration": 1,
 *       "machine": { "cpu_model": "AMD EPYC", "cpu_count": 2, ... },
 *       "loaded": false,
 *       "parameters": {
 *         "copy_near_byte_fs": {"value": 28000, "spread_permille": 12, "known": "measured"}, ... },
 *       "within": {
 *         "slot": {"sender_ps": 19600, "receiver_ps": 119600, "sender_byte_fs": 114000, ... }, ...
 *         },
 *       "between": { ... } }
 *
 * docs/how-to/calibration.md describes every member. All but the first may be missing.
 */
#ifndef TUTTI_FORMAT_CALIBRATION_JSON_H
#define TUTTI_FORMAT_CALIBRATION_JSON_H

#include <stdio.h>

#include "model/calibration.h"

enum { CALIBRATION_JSON_BYTES_MAX = 1 << 20 };

/* Reads foreign text into *calibration, which calibration_init has filled; numbers that the text
 * does not name stay as they are. INVALID_OPTIONS: the message says in which line the mistake is
 * and what is expected; UNSUPPORTED: the text is too large; NO_MEMORY. On failure *calibration is
 * unchanged. Any thread. */
enum tutti_status calibration_json_load(const char *text, size_t text_bytes,
                                        struct calibration *calibration);
/* Writes what calibration_json_load reads back as it is. NO_MEMORY. */
enum tutti_status calibration_json_dump(const struct calibration *calibration, FILE *file);

#endif
