/* A quantity that is exact is the same when it is rounded up, and never smaller. */
#include <string.h>

#include "milligpu/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text text = {size > 0 ? (const char *)data : "", size};
    for (unsigned decimals = 0; decimals <= 3; decimals += 3) {
        int64_t exact = 0;
        int64_t up = 0;
        const enum quantity_verdict verdict = quantity_parse(text, decimals, &exact);
        const enum quantity_verdict rounded = quantity_ceil(text, decimals, &up);
        must((verdict == QUANTITY_SYNTAX) == (rounded == QUANTITY_SYNTAX));
        if (verdict == QUANTITY_OK)
            must(rounded == QUANTITY_OK && up == exact);
        else if (verdict == QUANTITY_FRACTION)
            must(rounded == QUANTITY_OK || rounded == QUANTITY_RANGE);
    }
    return 0;
}
