/*
 * Any bytes as the ledger's file, and a good ledger with any of its bytes changed.
 *
 * Input: the file; or, after a first byte 0xff, changes of a good one: three bytes of place, one of
 * length, the bytes to write there; a length of 0 truncates the file.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "support_ledger.h"

static void change(struct pieces pieces)
{
    const struct text good = ledger_template();
    CLEANUP(xfreep) char *bytes = xmalloc(good.len);
    memcpy(bytes, good.at, good.len);
    const size_t size = pieces_change(&pieces, 3, bytes, good.len);
    ledger_put((struct text){bytes, size});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    if (size > 0 && data[0] == 0xff) {
        (void)pieces_byte(&pieces);
        change(pieces);
    } else {
        ledger_put(pieces_rest(&pieces));
    }
    ledger_use(ledger_thorough((struct text){(const char *)data, size}));
    return 0;
}
