/*
 * Keys and signatures are any bytes: none of them is good but the ones that were made here, and one
 * that was is good for exactly what it was made for. The private key is made once in each process,
 * so a finding that depends on it says so by its input alone: which bytes are changed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/sign/signing.h"

#include "support.h"

static const struct signing_key *key_of_process(void)
{
    static struct signing_key *key;
    char file[64];
    struct err err;

    if (key != NULL)
        return key;
    (void)snprintf(file, sizeof file, "/tmp/milligpu-fuzz-key-%d", (int)getpid());
    must(signing_key_open(file, &key, &err) == 0);
    must(unlink(file) == 0);
    return key;
}

/* Up to a NUL, as in a uid or a name. */
static struct text word_of(struct pieces *pieces)
{
    const struct text text = pieces_until(pieces, '\n');
    const char *nul = text.len > 0 ? memchr(text.at, 0, text.len) : NULL;

    return (struct text){text.at, nul != NULL ? (size_t)(nul - text.at) : text.len};
}

static void rubbish_is_refused(struct text key, struct text signature,
                               const struct signed_facts *what)
{
    char id[KEY_ID_BYTES] = "";

    if (signature_key_id(signature, id)) {
        must(signature.len == SIGNATURE_TEXT_BYTES - 1 && strlen(id) == KEY_ID_BYTES - 1);
        must(memcmp(signature.at + 3, id, KEY_ID_BYTES - 1) == 0);
    }
    must(!public_key_has_id(key, ""));
    must(!signature_is_good(text_of(signing_key_public(key_of_process())), signature, what));
    must(!signature_is_good(key, signature, what) || public_key_has_id(key, id));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    const struct signing_key *key = key_of_process();
    const struct text public_key = text_of(signing_key_public(key));
    const struct text given = pieces_until(&pieces, '\n');
    const struct text signature = pieces_until(&pieces, '\n');
    struct signed_facts what = {.uid = word_of(&pieces), .node = word_of(&pieces)};
    char text[SIGNATURE_TEXT_BYTES];
    char changed[SIGNATURE_TEXT_BYTES];
    struct err err;

    what.bytes = pieces_until(&pieces, '\n');
    rubbish_is_refused(given, signature, &what);
    if (what.bytes.len == 0)
        return 0;
    must(signing_sign(key, &what, text, &err) == 0);
    must(signature_is_good(public_key, text_of(text), &what));
    memcpy(changed, text, sizeof changed);
    const size_t len = pieces_change(&pieces, 1, changed, strlen(text));
    const bool same = len == strlen(text) && memcmp(changed, text, len) == 0;
    must(signature_is_good(public_key, (struct text){changed, len}, &what) == same);
    what.kind = SIGNED_USAGE;
    must(!signature_is_good(public_key, text_of(text), &what));
    return 0;
}
