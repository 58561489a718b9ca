/* product.h - products of complex numbers, which Tutti's reductions of real numbers cannot do.
 *
 * Each rank gathers a piece of all ranks' values and multiplies them itself, in the order of the
 * ranks: so all ranks get the same bits. It moves n times the bytes of a sum, which nobody minds
 * for an operation that hardly anybody uses.
 */
#ifndef TUTTI_JAX_PRODUCT_H
#define TUTTI_JAX_PRODUCT_H

#include "front/types.h"

/* recv[i] = the product of all send[i]; count is that of complex values. In place: recv == send. */
int front_product(const char *function, const void *send, void *recv, size_t count,
                  const struct front_type_entry *type, struct tutti_comm *comm);

#endif
