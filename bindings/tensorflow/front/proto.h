/* proto.h - as much of protocol buffers' encoding as the kernels need: texts and messages within a
 * message, by their field numbers. TensorFlow's C API hands over a node's device and the handle of
 * a resource as such messages.
 *
 * Pure. Any thread.
 */
#ifndef TUTTI_TENSORFLOW_PROTO_H
#define TUTTI_TENSORFLOW_PROTO_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the text of that field, with a 0 at its end; of several the last, as protocol buffers have
 * it, and "" for none. False: the message is broken off or none, or the text does not fit; then
 * *text is "". */
bool proto_get(const void *message, size_t message_bytes, unsigned field, char *text,
               size_t text_size);
/* Appends a field with those bytes to a message of *bytes bytes. False: it does not fit into
 * `size`, and nothing has changed. */
bool proto_put(void *message, size_t size, size_t *bytes, unsigned field, const void *value,
               size_t value_bytes);
/* The same for a number. */
bool proto_put_number(void *message, size_t size, size_t *bytes, unsigned field,
                      unsigned long long number);

#endif
