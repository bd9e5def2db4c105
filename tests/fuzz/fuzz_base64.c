/*
 * Base64 decodes to what a bit-by-bit decoder gives, and anything else is refused; any bytes
 * survive encoding and decoding.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"
#include "milligpu/base/strbuf.h"

#include "support.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Decode bit by bit, skipping blanks; false if it is not base64. */
static bool second_decode(const char *text, struct strbuf *out)
{
    size_t count = 0;
    size_t padding = 0;
    unsigned byte = 0;
    for (; *text != '\0'; text++) {
        if (strchr(" \n\r\t", *text) != NULL)
            continue;
        padding += *text == '=';
        if (*text == '=')
            continue;
        const char *letter = strchr(letters, *text);
        if (letter == NULL || padding > 0)
            return false;
        for (int bit = 5; bit >= 0; bit--) {
            byte = byte << 1 | ((unsigned)(letter - letters) >> bit & 1);
            if (++count % 8 == 0)
                strbuf_char(out, (char)(byte & 0xff));
        }
    }
    /* Six leftover bits are not a byte. */
    return padding <= 2 && count % 8 != 6;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(xfreep) char *text = xcalloc(size + 1, 1);
    SCOPED_STRBUF(second);
    size_t len = 0;
    if (size > 0)
        memcpy(text, data, size);
    CLEANUP(xfreep) char *bytes = base64_decode(text, &len);
    must((bytes != NULL) == second_decode(text, &second));
    must(bytes == NULL || (len == second.len && memcmp(bytes, second.data, len) == 0));
    /* Any bytes survive encoding and decoding. */
    CLEANUP(xfreep) char *encoded = base64_encode((struct text){text, size});
    must(strlen(encoded) == (size + 2) / 3 * 4);
    CLEANUP(xfreep) char *back = base64_decode(encoded, &len);
    must(back != NULL && len == size && memcmp(back, text, size) == 0);
    return 0;
}
