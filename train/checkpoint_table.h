/* checkpoint_table.h - the list of pieces of tensors, in memory and as bytes: in a file, or from
 * another rank.
 *
 *     bytes    name_bytes 2 | dtype 1 | dims 1 | shape 8 dims | first 8 dims | extent 8 dims | name
 *              | the next piece ...
 *
 * Numbers are little-endian. The elements of the pieces lie elsewhere, one piece behind the other,
 * in the order of the table. Bytes that are parsed are hostile: the memory taken for them is at
 * most some 20 times as large. A table has only one form, so a parsed table prints as the same
 * bytes.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_TABLE_H
#define TUTTI_TRAIN_CHECKPOINT_TABLE_H

#include "checkpoint_box.h"
#include "tutti/tutti.h"

enum { TABLE_NAME_MAX = 200 };

struct piece {
    const char *name;
    enum tutti_dtype dtype;
    uint64_t shape[BOX_DIMS];
    struct box box;
    uint64_t offset; /* of its elements in the data, in bytes */
};

/* Bytes that grow. */
struct table_bytes {
    unsigned char *bytes;
    size_t size, room;
};

struct table {
    struct piece *pieces;
    size_t count;
    uint64_t data_bytes;
    char *names;
};

uint64_t piece_bytes(const struct piece *piece);
/* Returns NULL, or why no tensor can have that name. */
const char *table_name_mistake(const char *name, size_t size);
/* Their order by name, and then by box; below, equal to or above 0. */
int piece_compare(const struct piece *a, const struct piece *b);
/* Whether both belong to tensors of the same name. */
bool piece_is_namesake(const struct piece *a, const struct piece *b);
/* Whether both have the same dtype and the same shape. */
bool piece_is_alike(const struct piece *a, const struct piece *b);
/* "[4, 0 to 31]", the elements of a box; cut off where there is no more room. */
void table_describe_box(const struct box *box, char *text, size_t text_bytes);
/* "float32 [16 x 32]", cut off where there is no more room. */
void piece_describe(const struct piece *piece, char *text, size_t text_bytes);

/* NO_MEMORY. */
enum tutti_status table_print(const struct piece *piece, struct table_bytes *bytes);
/* NO_MEMORY, or CORRUPT: no table ever printed those bytes. On failure there is nothing to
 * release. */
enum tutti_status table_parse(const unsigned char *bytes, size_t size, struct table *table);
void table_release(struct table *table);

#endif
