/*
 * Packed history: bytes that no packer wrote are refused, and what can be read is, packed and read
 * again, the same.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/past/pack.h"
#include "support.h"

static void write_out(const struct packed *packed, struct strbuf *out)
{
    strbuf_printf(out, "%lld %s %s/%s on %s %s %lld %lld %lld %u %u", (long long)packed->id,
                  packed->uid, packed->namespace, packed->name, packed->node, packed->node_uid,
                  (long long)packed->reserved_ms, (long long)packed->bound_ms,
                  (long long)packed->released_ms, packed->unplaced_milli, packed->n_charges);
    for (uint32_t i = 0; i < packed->n_charges; i++)
        strbuf_printf(out, " %u:%s:%u:%u", packed->charge[i].at, packed->charge[i].gpu,
                      packed->charge[i].milli, packed->charge[i].mib);
    strbuf_char(out, '\n');
}

/* False: it is no pack. Each allocation goes to out as text, and to the packer if there is one. */
static bool read_all(struct text bytes, struct strbuf *out, struct packer *packer)
{
    struct unpacker unpacker;
    struct err err;
    int more;

    unpacker_init(&unpacker);
    more = unpacker_open(&unpacker, bytes, &err);
    if (more == 0)
        while ((more = unpacker_next(&unpacker, &err)) > 0) {
            must(unpacker.packed.n_charges <= PARTS_MAX && unpacker.packed.id > 0);
            write_out(&unpacker.packed, out);
            if (packer != NULL)
                packer_add(packer, &unpacker.packed);
        }
    must(more == 0 || more == -(int)ERR_CORRUPT);
    must(more == 0 || err.text[0] != '\0');
    unpacker_done(&unpacker);
    return more == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SCOPED_STRBUF(first);
    SCOPED_STRBUF(second);
    SCOPED_STRBUF(bytes);
    struct packer packer;

    packer_init(&packer);
    const struct text input = {size > 0 ? (const char *)data : "", size};
    if (read_all(input, &first, &packer) && packer.facts.rows > 0) {
        packer_finish(&packer, &bytes);
        must(read_all((struct text){bytes.data, bytes.len}, &second, NULL));
        must(strcmp(first.data, second.data) == 0);
    }
    packer_done(&packer);
    return 0;
}
