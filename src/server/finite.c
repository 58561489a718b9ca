#include "server/finite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

size_t finite_end(size_t count, const float *numbers)
{
    enum { PIECE = 1024 };
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t here = count - first < PIECE ? count - first : PIECE;
        uint32_t carries = 0; /* into the sign, of exponents that have all bits */
        for (size_t i = 0; i < here; i++) {
            uint32_t bits;
            memcpy(&bits, &numbers[first + i], sizeof bits);
            carries |= (bits & 0x7f800000) + 0x00800000;
        }
        if (carries < 0x80000000) continue;
        for (size_t i = first;; i++)
            if (!isfinite(numbers[i])) return i;
    }
    return count;
}
