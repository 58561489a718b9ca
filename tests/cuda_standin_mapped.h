/* cuda_standin_mapped.h - memory of the stand-in's devices that a program maps by hand (cuMemCreate, cuMemMap): physical memory, each a file
 * without a name, and reservations of addresses. It is stricter, and stranger, than a driver may be:
 *
 *   - all that is mapped in a reservation has the reservation's number, whenever and whatever that is
 *   - a name of physical memory is given to other memory as soon as nothing keeps what it named
 *   - names, reservations and mappings that are not there end the process
 *
 * Any thread.
 */
#ifndef TUTTI_TESTS_CUDA_STANDIN_MAPPED_H
#define TUTTI_TESTS_CUDA_STANDIN_MAPPED_H

#include "cuda_standin.h"
#include "cuda_standin_memory.h"

int mapped_create(int device, size_t bytes, bool may_be_exported, cuda_memory *memory);
/* CUDA_INVALID_VALUE: nothing is mapped by hand at that address. */
int mapped_retain(uint64_t address, cuda_memory *memory);
void mapped_release(cuda_memory memory);
int mapped_export(cuda_memory memory, int *descriptor);
/* CUDA_INVALID_VALUE: the descriptor is of no such memory. */
int mapped_import(int descriptor, cuda_memory *memory);

int mapped_reserve(size_t bytes, uint64_t *address);
void mapped_free(uint64_t address, size_t bytes);
/* CUDA_INVALID_VALUE: something is there already, or more is wanted than there is. */
int mapped_map(uint64_t address, size_t bytes, cuda_memory memory);
void mapped_unmap(uint64_t address, size_t bytes);
/* From a device on, until it is unmapped. */
void mapped_give_access(uint64_t address, size_t bytes, int device);

#endif
