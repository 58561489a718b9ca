/* checkpoint_out.h - a new file, written and on the disk. */
#ifndef TUTTI_TRAIN_CHECKPOINT_OUT_H
#define TUTTI_TRAIN_CHECKPOINT_OUT_H

#include <stdbool.h>
#include <stddef.h>

struct out_part {
    const void *from;
    size_t bytes;
};

/* Makes the file, which is not there yet, of these parts, and waits until all of it is on the disk; its name is not. False: errno says why. */
bool out_write(const char *path, const struct out_part *parts, size_t count);

#endif
