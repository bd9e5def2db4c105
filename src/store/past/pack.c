/*
 * Encodes and decodes packs of released allocations (format: pack.h). packs.c encodes in the
 * writer, unpack_table.c decodes on any thread. Packs are untrusted input: each length is checked
 * against the remaining bytes, each number against the range of its field. In order: numbers and
 * texts, writing, reading.
 */
#include "pack.h"

#include <string.h>

enum { PACK_VERSION = 1, UUID_BYTES = 16, UUID_LEN = 36, BITS = 7, MORE = 0x80 };

static const uint8_t uuid_hyphens[] = {8, 13, 18, 23};

/* --- numbers and texts --- */

static void pack_number(struct strbuf *out, uint64_t number)
{
    for (; number >= MORE; number >>= BITS)
        strbuf_char(out, (char)(number | MORE));
    strbuf_char(out, (char)number);
    must(out->len > 0);
}

/* Unsigned arithmetic that wraps around, so that no two times overflow. */
static uint64_t pack_zigzag(int64_t number, int64_t from)
{
    const uint64_t far = (uint64_t)number - (uint64_t)from;

    static_assert(sizeof far * 8 == 64, "the sign is the highest bit");
    return far >> 63 != 0 ? ~(far << 1) : far << 1;
}

static int64_t pack_unzigzag(uint64_t number, int64_t from)
{
    const uint64_t far = (number & 1) != 0 ? ~(number >> 1) : number >> 1;

    static_assert(sizeof far == sizeof from, "both wrap around at the same place");
    return (int64_t)((uint64_t)from + far);
}

static bool is_hyphen(size_t at)
{
    must(at < UUID_LEN);
    return memchr(uuid_hyphens, (int)at, sizeof uuid_hyphens) != NULL;
}

/* Lower case only, because decoding must restore the same text. */
static int hex_value(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = digit != '\0' ? strchr(digits, digit) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* Parses a UUID of UUID_LEN characters; false: not a UUID. */
static bool uuid_read(const char *text, uint8_t out[UUID_BYTES])
{
    size_t nibbles = 0;

    must(text != NULL);
    for (size_t i = 0; i < UUID_LEN; i++) {
        if (is_hyphen(i)) {
            if (text[i] != '-')
                return false;
            continue;
        }
        const int value = hex_value(text[i]);
        if (value < 0)
            return false;
        out[nibbles / 2] = (uint8_t)(nibbles % 2 == 0 ? value << 4 : out[nibbles / 2] | value);
        nibbles++;
    }
    must(nibbles == (size_t)UUID_BYTES * 2);
    return true;
}

static void uuid_write(struct strbuf *out, const uint8_t *bytes)
{
    size_t at = 0;

    must(bytes != NULL);
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (is_hyphen(at)) {
            strbuf_char(out, '-');
            at++;
        }
        strbuf_printf(out, "%02x", bytes[i]);
        at += 2;
    }
}

/* --- writing --- */

static void pack_text(struct strbuf *out, struct text text)
{
    uint8_t uuid[UUID_BYTES];
    const bool has_uuid = text.len >= UUID_LEN && uuid_read(text.at + text.len - UUID_LEN, uuid);
    const size_t length = has_uuid ? text.len - UUID_LEN : text.len;

    must(memchr(text.at, '\0', text.len) == NULL);
    pack_number(out, length << 1 | (has_uuid ? 1 : 0));
    strbuf_add(out, text.at, length);
    if (has_uuid)
        strbuf_add(out, uuid, sizeof uuid);
}

struct pack_word {
    uint32_t number;
    char text[];
};

static void pack_put_word(struct packer *packer, struct text text)
{
    struct pack_word *word = map_find(&packer->number, text);

    if (word == NULL) {
        must(packer->n_words < UINT32_MAX);
        word = arena_alloc(&packer->arena, sizeof *word + text.len + 1);
        word->number = packer->n_words++;
        memcpy(word->text, text.at, text.len);
        must(map_put(&packer->number, (struct text){word->text, text.len}, word) == NULL);
        pack_text(&packer->words, text);
    }
    pack_number(&packer->rows, word->number);
}

/* In two parts, because names of a controller's pods differ only after the last hyphen. */
static void pack_put_name(struct packer *packer, const char *name)
{
    const char *hyphen = strrchr(name, '-');
    const size_t length = hyphen != NULL ? (size_t)(hyphen - name) + 1 : 0;
    const struct text rest = text_of(name + length);

    must(strchr(rest.at, '-') == NULL);
    pack_put_word(packer, (struct text){name, length});
    pack_number(&packer->rows, rest.len);
    strbuf_text(&packer->rows, rest);
}

static void pack_put_time(struct packer *packer, int64_t time_ms, int64_t released_ms)
{
    const uint64_t far = pack_zigzag(time_ms, released_ms);

    /* UINT64_MAX + 1 is not representable; no real time has this delta. */
    pack_number(&packer->rows, time_ms == 0 || far == UINT64_MAX ? 0 : far + 1);
    must(packer->rows.len > 0);
}

void packer_init(struct packer *packer)
{
    *packer = (struct packer){.n_words = 0};
    arena_init(&packer->arena);
    map_init(&packer->number);
    strbuf_init(&packer->words);
    strbuf_init(&packer->rows);
    must(packer->facts.rows == 0);
}

void packer_done(struct packer *packer)
{
    must(packer->rows.data != NULL);
    strbuf_done(&packer->rows);
    strbuf_done(&packer->words);
    map_done(&packer->number);
    arena_done(&packer->arena);
}

static void packer_count(struct pack_facts *facts, const struct packed *packed)
{
    /* An adopted allocation was never reserved and begins when it is bound. */
    const int64_t began_ms = packed->reserved_ms != 0 ? packed->reserved_ms : packed->bound_ms;

    must(facts->rows < UINT32_MAX);
    if (facts->rows++ == 0)
        *facts = (struct pack_facts){1,        packed->id,          packed->id,
                                     began_ms, packed->released_ms, packed->released_ms};
    facts->last = packed->id;
    if (began_ms < facts->began_ms)
        facts->began_ms = began_ms;
    if (packed->released_ms < facts->oldest_ms)
        facts->oldest_ms = packed->released_ms;
    if (packed->released_ms > facts->ended_ms)
        facts->ended_ms = packed->released_ms;
}

void packer_add(struct packer *packer, const struct packed *allocation)
{
    struct strbuf *out = &packer->rows;
    const int64_t before = packer->facts.rows > 0 ? packer->facts.last : 0;

    must(allocation->id > before && allocation->n_charges <= PARTS_MAX);
    pack_number(out, (uint64_t)(allocation->id - before));
    pack_text(out, text_of(allocation->uid));
    pack_put_word(packer, text_of(allocation->namespace));
    pack_put_word(packer, text_of(allocation->node));
    pack_put_word(packer, text_of(allocation->node_uid));
    pack_put_name(packer, allocation->name);
    pack_number(out, pack_zigzag(allocation->released_ms, packer->released_ms));
    pack_put_time(packer, allocation->bound_ms, allocation->released_ms);
    pack_put_time(packer, allocation->reserved_ms, allocation->released_ms);
    pack_number(out, allocation->n_charges);
    if (allocation->n_charges == 0)
        pack_number(out, allocation->unplaced_milli);
    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct packed_charge *charge = &allocation->charge[i];
        pack_number(out, charge->at);
        pack_put_word(packer, text_of(charge->gpu));
        pack_number(out, charge->milli);
        pack_number(out, charge->mib);
    }
    packer->released_ms = allocation->released_ms;
    packer_count(&packer->facts, allocation);
    must(packer->facts.last == allocation->id);
}

void packer_finish(const struct packer *packer, struct strbuf *out)
{
    must(packer->facts.rows > 0);
    pack_number(out, PACK_VERSION);
    pack_number(out, packer->n_words);
    strbuf_add(out, packer->words.data, packer->words.len);
    pack_number(out, packer->facts.rows);
    strbuf_add(out, packer->rows.data, packer->rows.len);
    must(out->len > packer->words.len + packer->rows.len);
}

/* --- reading --- */

/* Records a fault; all further reads fail. */
static void unpack_fail(struct unpacker *unpacker)
{
    unpacker->at = NULL;
    must(unpacker->end != NULL);
}

static bool has_failed(const struct unpacker *unpacker)
{
    must(unpacker->end != NULL);
    return unpacker->at == NULL;
}

/* Returns 0 after a fault; a number above most is a fault. */
static uint64_t unpack_number(struct unpacker *unpacker, uint64_t most)
{
    uint64_t number = 0;

    for (unsigned shift = 0; !has_failed(unpacker); shift += BITS) {
        if (unpacker->at == unpacker->end || shift > 63) {
            unpack_fail(unpacker);
            break;
        }
        const uint64_t byte = *unpacker->at++;
        if (shift == 63 && byte > 1) {
            unpack_fail(unpacker);
            break;
        }
        number |= (byte & ~(uint64_t)MORE) << shift;
        if (byte < MORE)
            break;
    }
    if (!has_failed(unpacker) && number > most)
        unpack_fail(unpacker);
    return has_failed(unpacker) ? 0 : number;
}

static size_t bytes_left(const struct unpacker *unpacker)
{
    must(has_failed(unpacker) || unpacker->at <= unpacker->end);
    return has_failed(unpacker) ? 0 : (size_t)(unpacker->end - unpacker->at);
}

/* Appends bytes to out. A NUL is a fault, because it would truncate the text. */
static void unpack_bytes(struct unpacker *unpacker, size_t length, struct strbuf *out)
{
    if (has_failed(unpacker) || length > bytes_left(unpacker) ||
        memchr(unpacker->at, '\0', length) != NULL) {
        unpack_fail(unpacker);
        return;
    }
    strbuf_add(out, unpacker->at, length);
    unpacker->at += length;
    must(unpacker->at <= unpacker->end);
}

static void unpack_text(struct unpacker *unpacker, struct strbuf *out)
{
    const uint64_t head = unpack_number(unpacker, UINT32_MAX);

    strbuf_reset(out);
    unpack_bytes(unpacker, head >> 1, out);
    if ((head & 1) == 0 || has_failed(unpacker))
        return;
    if (bytes_left(unpacker) < UUID_BYTES) {
        unpack_fail(unpacker);
        return;
    }
    uuid_write(out, unpacker->at);
    must(out->len >= UUID_LEN);
    unpacker->at += UUID_BYTES;
}

static const char *unpack_word(struct unpacker *unpacker)
{
    const uint64_t number = unpack_number(unpacker, UINT32_MAX);

    if (!has_failed(unpacker) && number >= unpacker->n_words)
        unpack_fail(unpacker);
    must(has_failed(unpacker) || unpacker->word[number] != NULL);
    return has_failed(unpacker) ? "" : unpacker->word[number];
}

static int64_t unpack_time(struct unpacker *unpacker, int64_t released_ms)
{
    const uint64_t number = unpack_number(unpacker, UINT64_MAX);

    return number == 0 ? 0 : pack_unzigzag(number - 1, released_ms);
}

void unpacker_init(struct unpacker *unpacker)
{
    *unpacker = (struct unpacker){.n_words = 0};
    arena_init(&unpacker->arena);
    strbuf_init(&unpacker->uid);
    strbuf_init(&unpacker->name);
    must(unpacker->n_rows == 0);
}

void unpacker_done(struct unpacker *unpacker)
{
    must(unpacker->name.data != NULL);
    strbuf_done(&unpacker->name);
    strbuf_done(&unpacker->uid);
    arena_done(&unpacker->arena);
}

static int unpack_refuse(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "a pack of the history is not what milligpu writes");
}

/* The remaining bytes limit both counts, since each word and allocation has at least one byte. */
int unpacker_open(struct unpacker *unpacker, struct text bytes, struct err *err)
{
    must(bytes.at != NULL);
    arena_reset(&unpacker->arena);
    unpacker->at = (const uint8_t *)bytes.at;
    unpacker->end = unpacker->at + bytes.len;
    unpacker->packed = (struct packed){.id = 0};
    if (unpack_number(unpacker, PACK_VERSION) != PACK_VERSION)
        unpack_fail(unpacker);
    unpacker->n_words = unpack_number(unpacker, bytes_left(unpacker));
    unpacker->word = arena_array(&unpacker->arena, unpacker->n_words + 1, sizeof *unpacker->word);
    for (uint64_t i = 0; i < unpacker->n_words && !has_failed(unpacker); i++) {
        unpack_text(unpacker, &unpacker->name);
        unpacker->word[i] =
            arena_copy(&unpacker->arena, (struct text){unpacker->name.data, unpacker->name.len});
    }
    unpacker->n_rows = unpack_number(unpacker, bytes_left(unpacker));
    return has_failed(unpacker) ? unpack_refuse(err) : 0;
}

static void unpack_charges(struct unpacker *unpacker, struct packed *out)
{
    out->n_charges = (uint32_t)unpack_number(unpacker, PARTS_MAX);
    out->unplaced_milli = out->n_charges == 0 ? (uint32_t)unpack_number(unpacker, UINT32_MAX) : 0;
    for (uint32_t i = 0; i < out->n_charges && !has_failed(unpacker); i++) {
        struct packed_charge *charge = &out->charge[i];
        charge->at = (uint32_t)unpack_number(unpacker, PARTS_MAX - 1);
        charge->gpu = unpack_word(unpacker);
        charge->milli = (uint32_t)unpack_number(unpacker, UINT32_MAX);
        charge->mib = (uint32_t)unpack_number(unpacker, UINT32_MAX);
    }
    must(out->n_charges <= PARTS_MAX);
}

/* The maximum leaves ten bits for the charge in a row number (history.c). */
static int64_t unpack_id(struct unpacker *unpacker, int64_t before)
{
    const uint64_t most = (uint64_t)((INT64_MAX >> 10) - before);
    const uint64_t far = unpack_number(unpacker, most);

    must(before >= 0);
    if (far == 0)
        unpack_fail(unpacker);
    return before + (int64_t)far;
}

int unpacker_next(struct unpacker *unpacker, struct err *err)
{
    struct packed *packed = &unpacker->packed;

    must(unpacker->end != NULL && err != NULL);
    if (!has_failed(unpacker) && unpacker->n_rows == 0 && unpacker->at == unpacker->end)
        return 0;
    if (unpacker->n_rows == 0)
        return unpack_refuse(err);
    unpacker->n_rows--;
    packed->id = unpack_id(unpacker, packed->id);
    unpack_text(unpacker, &unpacker->uid);
    packed->namespace = unpack_word(unpacker);
    packed->node = unpack_word(unpacker);
    packed->node_uid = unpack_word(unpacker);
    strbuf_reset(&unpacker->name);
    strbuf_str(&unpacker->name, unpack_word(unpacker));
    unpack_bytes(unpacker, unpack_number(unpacker, UINT32_MAX), &unpacker->name);
    packed->uid = unpacker->uid.data;
    packed->name = unpacker->name.data;
    packed->released_ms = pack_unzigzag(unpack_number(unpacker, UINT64_MAX), packed->released_ms);
    packed->bound_ms = unpack_time(unpacker, packed->released_ms);
    packed->reserved_ms = unpack_time(unpacker, packed->released_ms);
    unpack_charges(unpacker, packed);
    return has_failed(unpacker) ? unpack_refuse(err) : 1;
}
