/* elastic_store.h - a store in a directory that all processes see: each value is a file. What
 * tutti.FolderStore of the Python package writes, it reads, and the other way round. */
#ifndef TUTTI_TRAIN_ELASTIC_STORE_H
#define TUTTI_TRAIN_ELASTIC_STORE_H

#include "tutti/tutti.h"

struct elastic_folder_store;

/* The directory must exist. Fills *store, whose context is *made. */
enum tutti_status elastic_folder_store_open(const char *folder, struct tutti_store *store,
                                            struct elastic_folder_store **made);
/* Leaves a sign that this process is a rank, which `tutti-run --elastic` looks for. */
void elastic_folder_store_sign(struct elastic_folder_store *store);
void elastic_folder_store_close(struct elastic_folder_store *store);

#endif
