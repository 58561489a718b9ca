/* checkpoint_out.h - writes a new file and waits until it is on the disk. */
#ifndef TUTTI_TRAIN_CHECKPOINT_OUT_H
#define TUTTI_TRAIN_CHECKPOINT_OUT_H

#include <stdbool.h>
#include <stddef.h>

struct out_part {
    const void *from;
    size_t bytes;
};

/* Makes the file, which must not be there yet, of these parts, and waits until all of its bytes are
 * on the disk. Its name is not yet on the disk then. False: errno says why. */
bool out_write(const char *path, const struct out_part *parts, size_t count);

#endif
