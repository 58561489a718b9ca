/* cuda_standin_mapped.h - memory of the stand-in's devices that a program maps by hand
 * (cuMemCreate, cuMemMap): physical memory, each a file without a name, and reservations of
 * addresses. It is stricter, and stranger, than a driver may be:
 *
 *   - what it says of mappings is what `enum mapped_manner` says; without TUTTI_STANDIN_MAPPED all
 *     that is mapped in a reservation has the reservation's number, whenever and whatever that is
 *   - with TUTTI_STANDIN_WAIT, to give access to a mapping, and to unmap it, wait for the device
 *   - a name of physical memory is given to other memory as soon as nothing keeps what it named
 *   - names, reservations and mappings that are not there end the process
 *
 * Any thread.
 */
#ifndef TUTTI_TESTS_GPU_CUDA_STANDIN_MAPPED_H
#define TUTTI_TESTS_GPU_CUDA_STANDIN_MAPPED_H

#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/cuda_standin_memory.h"

void mapped_init(enum mapped_manner manner);

int mapped_create(int device, size_t bytes, bool may_be_exported, cuda_memory *memory);
/* CUDA_INVALID_VALUE: nothing is mapped by hand at that address. */
int mapped_retain(uint64_t address, cuda_memory *memory);
void mapped_release(cuda_memory memory);
int mapped_export(cuda_memory memory, int *descriptor);
/* CUDA_INVALID_VALUE: the descriptor is of no such memory. */
int mapped_import(int descriptor, cuda_memory *memory);

int mapped_reserve(size_t bytes, uint64_t *address);
void mapped_free(uint64_t address, size_t bytes);
/* CUDA_INVALID_VALUE: something is there already, more is wanted than there is, or an address or a
 * size is no multiple of the granularity. */
int mapped_map(uint64_t address, size_t bytes, cuda_memory memory);
void mapped_unmap(uint64_t address, size_t bytes);
/* From a device on, until it is unmapped. are_peers: also if it is memory of another device; else
 * CUDA_INVALID_DEVICE. */
int mapped_give_access(uint64_t address, size_t bytes, int device, bool are_peers);
/* As cuMemGetAddressRange, of a mapping. */
int mapped_range(const struct memory_range *range, uint64_t *base, size_t *bytes);
/* How what is mapped there goes to other processes. */
uint64_t mapped_types(const struct memory_range *range);

#endif
