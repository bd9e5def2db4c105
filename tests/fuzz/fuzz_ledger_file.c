/*
 * Any bytes as the ledger's file, and a good ledger with any of its bytes changed.
 *
 * Input: the file; or, behind a first byte 0xff, changes of a good one: three bytes of place, one
 * of length, the bytes to write there; a length of 0 cuts the file.
 */
#include <string.h>

#include "milligpu/alloc.h"

#include "support_ledger.h"

static void change(struct pieces pieces)
{
    const struct text good = ledger_template();
    CLEANUP(xfreep) char *bytes = xmalloc(good.len);
    size_t size = good.len;
    memcpy(bytes, good.at, size);
    while (pieces.left >= 4 && size > 0) {
        size_t at = pieces_byte(&pieces);
        at = at << 8 | pieces_byte(&pieces);
        at = (at << 8 | pieces_byte(&pieces)) % size;
        const struct text piece = pieces_take(&pieces, pieces_byte(&pieces));
        if (piece.len == 0)
            size = at;
        else
            memcpy(bytes + at, piece.at, piece.len < size - at ? piece.len : size - at);
    }
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
