/* table_memory.h - the memory of tables: counted, and bounded if the owner wants that. */
#ifndef TUTTI_SERVER_TABLE_MEMORY_H
#define TUTTI_SERVER_TABLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct table_budget { /* of all tables of a server */
    uint64_t used, max;
};
struct table_memory { /* of one table */
    struct table_budget *budget;
    uint64_t used;
};

/* Memory that begins a cache line, with undefined contents; NULL if there is none, or not within
 * the budget. */
void *table_memory_take(struct table_memory *memory, uint64_t bytes);
/* Gives back what was taken, with the same number of bytes. NULL is allowed. */
void table_memory_give(struct table_memory *memory, void *taken, uint64_t bytes);

#endif
