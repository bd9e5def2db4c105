/*
 * Parses TZif files and looks up offsets; zone_rule.c handles the rule at the end of a file. Called
 * when a policy document with a zone is read, and by window.c.
 */
#include "milligpu/core/rules/zone.h"

#include <string.h>

#include "milligpu/base/alloc.h"

#include "zone_rule.h"

struct transition {
    int64_t at_s;
    int32_t offset_s; /* from that time on */
};

struct zone {
    char name[ZONE_NAME_BYTES_MAX + 1];
    uint32_t digest;       /* of the file's bytes; 0: no file */
    int32_t first_s;       /* offset before the first transition */
    struct zone_rule rule; /* offsets after the last transition */
    uint32_t count;
    struct transition transition[];
};

enum { HEADER_BYTES = 44, TYPE_BYTES = 6, TYPES_MAX = 256 };

struct header {
    char version;
    uint32_t is_ut;
    uint32_t is_standard;
    uint32_t leaps;
    uint32_t transitions;
    uint32_t types;
    uint32_t letters; /* bytes of all abbreviations */
};

bool zone_name_ok(struct text name)
{
    must(name.at != NULL || name.len == 0);
    if (name.len == 0 || name.len > ZONE_NAME_BYTES_MAX)
        return false;
    bool part = false; /* the current part is not empty */
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.at[i];
        const char lower = text_lower(c);
        const bool plain = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
                           c == '+' || c == '-';
        if (!plain && !(c == '/' && part))
            return false;
        part = plain;
    }
    must(name.at[0] != '/');
    return part;
}

static uint32_t read_u32(const char *at)
{
    const uint8_t *byte = (const uint8_t *)at;
    must(at != NULL);
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

/* Reads the time of a transition: 4 bytes in version 1, else 8. */
static int64_t read_time(const char *at, size_t bytes)
{
    must(bytes == 4 || bytes == 8);
    const int64_t high = (int32_t)read_u32(at);
    if (bytes == 4)
        return high;
    must(high >= INT32_MIN);
    return high * ((int64_t)1 << 32) + read_u32(at + 4);
}

static int ends_early(struct err *err)
{
    return err_set(err, ERR_INVALID, "the file ends early");
}

/* Parses a header and advances rest past it. */
static int take_header(struct text *rest, struct header *out, struct err *err)
{
    static const char magic[] = {'T', 'Z', 'i', 'f'};
    must(rest->at != NULL || rest->len == 0);

    if (rest->len >= sizeof magic && memcmp(rest->at, magic, sizeof magic) != 0)
        return err_set(err, ERR_INVALID, "not a time zone file (TZif)");
    if (rest->len < HEADER_BYTES)
        return ends_early(err);
    const char version = rest->at[4];
    if (version != '\0' && (version < '2' || version > '4'))
        return err_set(err, ERR_INVALID, "version 0x%02x of TZif; known are 1 to 4",
                       (unsigned)(uint8_t)version);
    const char *counts = rest->at + 20;
    *out = (struct header){
        .version = version,
        .is_ut = read_u32(counts),
        .is_standard = read_u32(counts + 4),
        .leaps = read_u32(counts + 8),
        .transitions = read_u32(counts + 12),
        .types = read_u32(counts + 16),
        .letters = read_u32(counts + 20),
    };
    rest->at += HEADER_BYTES;
    rest->len -= HEADER_BYTES;
    return 0;
}

/* The size of the data block after the header. Six counts of 32 bits cannot overflow 64. */
static uint64_t block_bytes(const struct header *header, size_t time_bytes)
{
    must(time_bytes == 4 || time_bytes == 8);
    const uint64_t bytes = (uint64_t)header->transitions * (time_bytes + 1) +
                           (uint64_t)header->types * TYPE_BYTES + header->letters +
                           (uint64_t)header->leaps * (time_bytes + 4) + header->is_standard +
                           header->is_ut;
    must(bytes < (uint64_t)1 << 37);
    return bytes;
}

static int check_counts(const struct header *header, struct err *err)
{
    must(header->version == '\0' || header->version >= '2');
    if (header->transitions > ZONE_TRANSITIONS_MAX)
        return err_set(err, ERR_TOO_LARGE, "%u transitions, more than %d", header->transitions,
                       ZONE_TRANSITIONS_MAX);
    if (header->leaps > 0)
        return err_set(err, ERR_INVALID,
                       "it counts leap seconds; take the zone without \"right/\"");
    if (header->types == 0 || header->types > TYPES_MAX)
        return err_set(err, ERR_INVALID, "%u types of local time, not 1 to %d", header->types,
                       TYPES_MAX);
    return 0;
}

static int read_types(const struct header *header, const char *types, int32_t offset_s[TYPES_MAX],
                      struct err *err)
{
    must(header->types > 0 && header->types <= TYPES_MAX);
    must(types != NULL);
    for (uint32_t i = 0; i < header->types; i++) {
        offset_s[i] = (int32_t)read_u32(types + (size_t)i * TYPE_BYTES);
        if (offset_s[i] <= -ZONE_OFFSET_MAX_S || offset_s[i] >= ZONE_OFFSET_MAX_S)
            return err_set(err, ERR_INVALID, "an offset of %d s from UTC", offset_s[i]);
    }
    return 0;
}

/* Parses a data block into the zone. Without a rule, the last offset holds for ever. */
static int take_block(struct text *rest, const struct header *header, size_t time_bytes,
                      struct zone *zone, struct err *err)
{
    int32_t offset_s[TYPES_MAX] = {0};
    const uint64_t bytes = block_bytes(header, time_bytes);

    must(header->transitions <= ZONE_TRANSITIONS_MAX);
    if (bytes > rest->len)
        return ends_early(err);
    const char *times = rest->at;
    const char *type = times + header->transitions * time_bytes;
    if (read_types(header, type + header->transitions, offset_s, err) < 0)
        return err_same(err);
    zone->first_s = offset_s[0];
    zone->rule.standard_s = zone->first_s;
    for (uint32_t i = 0; i < header->transitions; i++) {
        const uint8_t which = (uint8_t)type[i];
        if (which >= header->types)
            return err_set(err, ERR_INVALID, "transition %u: there is no type %u", i, which);
        zone->transition[i] =
            (struct transition){read_time(times + i * time_bytes, time_bytes), offset_s[which]};
        if (i > 0 && zone->transition[i].at_s <= zone->transition[i - 1].at_s)
            return err_set(err, ERR_INVALID, "transition %u is not later than the one before", i);
        zone->rule.standard_s = offset_s[which];
    }
    zone->count = header->transitions;
    must(bytes <= rest->len);
    rest->at += bytes;
    rest->len -= (size_t)bytes;
    return 0;
}

/* Parses the footer: a rule between two newlines, possibly empty. */
static int take_footer(struct text *rest, struct zone_rule *rule, struct err *err)
{
    struct text line;
    must(!rule->has_summer);
    if (rest->len == 0)
        return ends_early(err);
    if (rest->at[0] != '\n')
        return err_set(err, ERR_INVALID, "no rule where it has to be");
    rest->at++;
    rest->len--;
    if (memchr(rest->at, '\n', rest->len) == NULL)
        return ends_early(err);
    const bool cut = text_cut(rest, '\n', &line);
    must(cut);
    if (line.len > 0 && !zone_rule_parse(line, rule))
        return err_set(err, ERR_INVALID, "its rule \"%.*s\" cannot be read", TEXT_ARG(line));
    return 0;
}

/* From version 2 on, a block with 64-bit times and the footer follow the 32-bit block. */
static int skip_old_block(struct text *rest, struct header *header, struct err *err)
{
    const char version = header->version;
    const uint64_t bytes = block_bytes(header, 4);
    must(version != '\0');
    if (bytes > rest->len)
        return ends_early(err);
    rest->at += bytes;
    rest->len -= (size_t)bytes;
    if (take_header(rest, header, err) < 0)
        return err_same(err);
    must(rest->at != NULL);
    if (header->version != version)
        return err_set(err, ERR_INVALID, "its two headers have different versions");
    return 0;
}

static struct zone *zone_alloc(struct text name, uint32_t transitions)
{
    must(zone_name_ok(name));
    must(transitions <= ZONE_TRANSITIONS_MAX);
    struct zone *zone = xcalloc(1, sizeof *zone + transitions * sizeof zone->transition[0]);
    memcpy(zone->name, name.at, name.len);
    return zone;
}

static int zone_read(struct text name, struct text bytes, struct zone **out, struct err *err)
{
    struct text rest = bytes;
    struct header header = {0};
    must(zone_name_ok(name));

    if (bytes.len > ZONE_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d bytes", ZONE_BYTES_MAX);
    if (take_header(&rest, &header, err) < 0)
        return err_same(err);
    const bool old = header.version == '\0';
    if (!old && skip_old_block(&rest, &header, err) < 0)
        return err_same(err);
    if (check_counts(&header, err) < 0)
        return err_same(err);
    CLEANUP(zone_freep) struct zone *zone = zone_alloc(name, header.transitions);
    if (take_block(&rest, &header, old ? 4 : 8, zone, err) < 0 ||
        (!old && take_footer(&rest, &zone->rule, err) < 0))
        return err_same(err);
    must(rest.len <= bytes.len);
    if (rest.len > 0)
        return err_set(err, ERR_INVALID, "%zu bytes behind its end", rest.len);
    *out = STEAL(zone);
    return 0;
}

int zone_new(struct text name, struct text bytes, struct zone **out, struct err *err)
{
    must(bytes.at != NULL || bytes.len == 0);
    if (zone_read(name, bytes, out, err) < 0)
        return err_wrap(err, "time zone %.*s", TEXT_ARG(name));
    (*out)->digest = text_hash(bytes);
    must(strlen((*out)->name) == name.len);
    return 0;
}

struct zone *zone_utc(void)
{
    struct zone *zone = zone_alloc(TEXT("UTC"), 0);
    must(!zone->rule.has_summer);
    must(zone->rule.standard_s == 0);
    return zone;
}

void zone_free(struct zone *zone)
{
    xfree(zone);
}

const char *zone_name(const struct zone *zone)
{
    must(zone != NULL);
    must(zone->name[0] != '\0');
    return zone->name;
}

bool zone_alike(const struct zone *a, const struct zone *b)
{
    must(a != NULL && b != NULL);
    return strcmp(a->name, b->name) == 0 && a->digest == b->digest;
}

/* The number of transitions at or before utc_s. */
static uint32_t transitions_until(const struct zone *zone, int64_t utc_s)
{
    uint32_t first = 0;
    uint32_t end = zone->count;
    must(zone->count <= ZONE_TRANSITIONS_MAX);
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (zone->transition[middle].at_s <= utc_s)
            first = middle + 1;
        else
            end = middle;
    }
    must(first == zone->count || zone->transition[first].at_s > utc_s);
    must(first == 0 || zone->transition[first - 1].at_s <= utc_s);
    return first;
}

int32_t zone_offset_s(const struct zone *zone, int64_t utc_s)
{
    const uint32_t past = transitions_until(zone, utc_s);
    const int32_t offset_s = past == zone->count ? zone_rule_offset_s(&zone->rule, utc_s)
                             : past == 0         ? zone->first_s
                                                 : zone->transition[past - 1].offset_s;
    must(offset_s > -ZONE_OFFSET_MAX_S);
    must(offset_s < ZONE_OFFSET_MAX_S);
    return offset_s;
}

int64_t zone_next_s(const struct zone *zone, int64_t utc_s)
{
    const uint32_t past = transitions_until(zone, utc_s);
    const int64_t next =
        past == zone->count ? zone_rule_next_s(&zone->rule, utc_s) : zone->transition[past].at_s;
    must(next > utc_s || next == INT64_MAX);
    must(past == zone->count || next < INT64_MAX || zone->transition[past].at_s == next);
    return next;
}
