/* For any bytes, sparse_index_decode reads no more than the code's bytes, writes no more than its
 * indices, and what it accepts are increasing indices of the range that encode to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sparse_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const int64_t *indices, size_t count, int64_t first, uint64_t range,
                  const unsigned char *code, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (indices[i] < (i == 0 ? first : indices[i - 1] + 1) ||
            (uint64_t)(indices[i] - first) >= range)
            abort();
    unsigned char *const again = malloc(bytes + 1);
    if (again == NULL) return;
    sparse_index_encode(indices, count, first, range, again);
    if (memcmp(again, code, bytes) != 0) abort();
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 12) return 0;
    uint64_t range;
    uint32_t count;
    memcpy(&range, data, 8);
    memcpy(&count, data + 8, 4);
    range >>= 1; /* an index is a positive number */
    range >>= count >> 26;
    count &= 0xffff;
    data += 12, size -= 12;
    if (count > range) {
        if (sparse_index_decode(data, count, 0, range, NULL)) abort();
        return 0;
    }
    const size_t bytes = sparse_index_bytes(count, range);
    if (bytes > size) return 0;
    unsigned char *const code = malloc(bytes + 1); /* of exactly this size, for the sanitizer */
    int64_t *const indices = malloc((count + 1) * sizeof *indices);
    if (code != NULL && indices != NULL) {
        const int64_t first = (int64_t)((UINT64_C(1) << 62) - range / 2);
        const int64_t begin = range < UINT64_C(1) << 60 ? first : 0;
        memcpy(code, data, bytes);
        if (sparse_index_decode(code, count, begin, range, indices))
            check(indices, count, begin, range, code, bytes);
    }
    free(code);
    free(indices);
    return 0;
}
