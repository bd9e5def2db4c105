#include "support/zones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

bool zones_bytes(const char *name, struct strbuf *out)
{
    char path[256];
    char block[4096];
    (void)snprintf(path, sizeof path, ZONES_FOLDER "/%s", name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;)
        strbuf_add(out, block, got);
    (void)fclose(file);
    return true;
}

static struct zone *made(const char *name, const struct strbuf *bytes)
{
    struct zone *zone = NULL;
    struct err err;
    if (zone_new(text_of(name), (struct text){bytes->data, bytes->len}, &zone, &err) < 0)
        fail_msg("%s", err.text);
    return zone;
}

struct zone *zones_installed(const char *name)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    if (!zones_bytes(name, &bytes))
        fail_msg("no " ZONES_FOLDER "/%s: is tzdata installed?", name);
    struct zone *zone = made(name, &bytes);
    strbuf_done(&bytes);
    return zone;
}

static void put(struct strbuf *out, int64_t number, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        strbuf_char(out, (char)((uint64_t)number >> (8 * i) & 0xff));
}

static void put_header(struct strbuf *out, char version, const int64_t counts[6])
{
    strbuf_str(out, "TZif");
    strbuf_char(out, version);
    put(out, 0, 8);
    put(out, 0, 7);
    for (int i = 0; i < 6; i++)
        put(out, counts[i], 4);
}

static void put_block(struct strbuf *out, const struct tzif *file, int time_bytes)
{
    for (size_t i = 0; i < file->transitions; i++)
        put(out, file->at_s[i], time_bytes);
    for (size_t i = 0; i < file->transitions; i++)
        strbuf_char(out, (char)file->type[i]);
    for (size_t i = 0; i < file->n_types; i++) {
        put(out, file->offset_s[i], 4);
        put(out, 0, 2);
    }
    strbuf_add(out, "ABC", 4);
    for (uint32_t i = 0; i < file->leaps; i++) {
        put(out, i, time_bytes);
        put(out, 0, 4);
    }
}

/* A slim file: its old block has a type and letters, and nothing else. */
void tzif_write(const struct tzif *file, struct strbuf *out)
{
    static const int64_t none[6] = {0, 0, 0, 0, 1, 1};
    const int64_t counts[6] = {
        0, 0, file->leaps, (int64_t)file->transitions, (int64_t)file->n_types, 4};
    if (file->version == '\0') {
        put_header(out, file->version, counts);
        put_block(out, file, 4);
        return;
    }
    put_header(out, file->version, none);
    put(out, 0, 7);
    put_header(out, file->version, counts);
    put_block(out, file, 8);
    strbuf_printf(out, "\n%s\n", file->footer);
}

struct zone *zones_of_rule(const char *name, const char *rule)
{
    static const int32_t offset_s[] = {0};
    const struct tzif file = {.version = '2', .n_types = 1, .offset_s = offset_s, .footer = rule};
    struct strbuf bytes;
    strbuf_init(&bytes);
    tzif_write(&file, &bytes);
    struct zone *zone = made(name, &bytes);
    strbuf_done(&bytes);
    return zone;
}
