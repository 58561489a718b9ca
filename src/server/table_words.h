/* table_words.h - what all ranks of a parameter server must give alike about a table, as words: to be hashed, and,
 * where hashes differ, to be sent to other ranks, so that the error names the table, the field and both values.
 * Pure. */
#ifndef TUTTI_SERVER_TABLE_WORDS_H
#define TUTTI_SERVER_TABLE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/server.h"

enum { TABLE_WORDS_NUMBERS = 18 };

struct table_words {
    char name[256];
    uint64_t numbers[TABLE_WORDS_NUMBERS];
};

/* The table's name has less than 256 bytes. */
void table_words_of(const struct tutti_server_table *table, struct table_words *words);
uint64_t table_words_hash(uint64_t hash, const struct table_words *words);
/* Says how tables differ from those of another rank, which may have sent anything: the first difference. False:
 * they do not. */
bool table_words_differ(const struct table_words *own, size_t own_count,
                        const struct table_words *other, size_t other_count, char *text,
                        size_t text_bytes);

#endif
