/*
 * Interprets a table of settings: types, values, suggestions for mistyped names. Called by the
 * other files of settings. Values from all sources pass through setting_put(), so a text means the
 * same in a file, a variable and a flag. Every error states the valid values. In order: names,
 * values.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/limits.h"
#include "milligpu/http/http.h"

#include "settings_internal.h"

/* --- names --- */

const char *setting_word(const struct setting_info *info)
{
    static const char *const words[] = {"TEXT", "FILE", "HOST:PORT", "WORD", "true|false", "N"};

    must(info->type < ARRAY_LEN(words));
    return words[info->type];
}

/* 80 bytes are enough for every name in a table: the must() below checks it. */
void setting_flag(const struct setting_info *info, char *out, size_t bytes)
{
    const int len = snprintf(out, bytes, "--%s", info->name);

    must(len > 0 && (size_t)len < bytes);
    for (char *at = out; *at != '\0'; at++)
        if (*at == '_')
            *at = '-';
}

void setting_variable(const struct settings_program *program, const struct setting_info *info,
                      char *out, size_t bytes)
{
    const int len = snprintf(out, bytes, "%s%s", program->prefix, info->name);

    must(len > 0 && (size_t)len < bytes);
    for (char *at = out; *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
}

/* Compares with dash in place of '_', without a copy. Case-sensitive. */
const struct setting_info *setting_find(const struct settings_program *program, struct text name,
                                        char dash)
{
    must(dash == '_' || dash == '-');
    for (size_t id = 0; id < program->settings; id++) {
        const char *known = program->info[id].name;
        size_t at = 0;
        while (at < name.len && known[at] != '\0' &&
               name.at[at] == (known[at] == '_' ? dash : known[at]))
            at++;
        if (at == name.len && known[at] == '\0')
            return &program->info[id];
    }
    return NULL;
}

/* limit in bytes of a name that may be a typo */
enum { NEAR_BYTES = 64 };

/*
 * Ignores case and dashes, so MILLIGPU_wake and --log_level get a suggestion. Short names allow
 * fewer typos: one letter in three.
 */
const struct setting_info *setting_nearest(const struct settings_program *program, struct text name)
{
    const struct setting_info *nearest = NULL;
    size_t best = 3; /* edit distance: up to two is a typo */
    char plain[NEAR_BYTES];

    must(name.at != NULL);
    if (name.len > NEAR_BYTES)
        return NULL;
    for (size_t i = 0; i < name.len; i++)
        plain[i] = name.at[i] == '-' ? '_' : (char)tolower((unsigned char)name.at[i]);
    for (size_t id = 0; id < program->settings; id++) {
        const struct setting_info *info = &program->info[id];
        const size_t slips = text_distance((struct text){plain, name.len}, text_of(info->name));
        if (slips < best && slips <= strlen(info->name) / 3) {
            best = slips;
            nearest = info;
        }
    }
    return nearest;
}

/* --- values --- */

struct setting_text {
    const struct setting_info *info;
    const char *text;
    const char *place;
    bool terse; /* short error text, without the setting's name: place contains it */
    struct err *err;
};

/* "config.yaml:3: wake: "x" is not one of: object node off". */
static int table_wrong(const struct setting_text *in, const char *right)
{
    must(in->place != NULL);
    char shown[80];

    text_clip(text_of(in->text), shown, sizeof shown);
    return err_set(in->err, ERR_INVALID, "%s: %s%s\"%s\" %s", in->place,
                   in->terse ? "" : in->info->name, in->terse ? "" : ": ", shown, right);
}

/* Requires one line of plain text, so that the output of --print-config can be loaded. */
static int check_text(const struct setting_text *in)
{
    CLEANUP(strbuf_done) struct strbuf json;

    strbuf_init(&json);
    if (strlen(in->text) > SETTING_BYTES_MAX)
        return table_wrong(in, "is longer than 4096 bytes");
    for (const char *at = in->text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return table_wrong(in, "holds a control character: write it on one line, without tabs");
    /* Text that is not UTF-8 could be neither logged nor loaded from --print-config. */
    strbuf_json(&json, text_of(in->text));
    if (strstr(json.data, "\xEF\xBF\xBD") != NULL)
        return table_wrong(in, "is not UTF-8");
    return 0;
}

/* Digits only: strtoul() accepts blanks, a sign and 0x. The loop stops before an overflow. */
static int check_number(const struct setting_text *in, uint32_t *out)
{
    const struct setting_info *info = in->info;
    char right[100];
    uint64_t number = 0;
    const char *at = in->text;

    must(info->type == SETTING_TYPE_NUMBER);
    while (*at >= '0' && *at <= '9' && number <= UINT32_MAX)
        number = number * 10 + (uint64_t)(*at++ - '0');
    if (*at == '\0' && at != in->text && number >= info->low && number <= info->high) {
        *out = (uint32_t)number;
        return 0;
    }
    if (in->terse)
        (void)snprintf(right, sizeof right, "is no number from %u to %u", info->low, info->high);
    else
        (void)snprintf(right, sizeof right, "is not a whole number from %u to %u (%s)", info->low,
                       info->high, info->unit);
    return table_wrong(in, right);
}

/* Not yes, on or 1: all sources accept the same words, and only the file has a YAML reader. */
static int check_bool(const struct setting_text *in, bool *out)
{
    must(in->info->type == SETTING_TYPE_BOOL);
    if (strcmp(in->text, "true") != 0 && strcmp(in->text, "false") != 0)
        return table_wrong(in, "is not true or false");
    *out = in->text[0] == 't';
    return 0;
}

static int check_choice(const struct setting_text *in)
{
    struct text rest = text_of(in->info->unit);
    struct text word;
    char right[100];

    must(rest.len > 0);
    while (text_cut(&rest, ' ', &word))
        if (text_is(word, in->text))
            return 0;
    (void)snprintf(right, sizeof right, "is %s of: %s", in->terse ? "none" : "not one",
                   in->info->unit);
    return table_wrong(in, right);
}

/* Empty means off; check_listeners() decides which listeners may be off. */
static int check_address(const struct setting_text *in)
{
    must(in->err != NULL);
    if (in->text[0] == '\0' || http_address_check(in->text, in->err) == 0)
        return 0;
    return err_wrap(in->err, "%s: %s", in->place, in->info->name);
}

/*
 * Checks a text and stores its value in the program's struct; a failure leaves the old value. Texts
 * are stored as pointers to in->text, which must outlive values.
 */
static int table_check(const struct setting_text *in, void *values)
{
    const struct setting_info *info = in->info;
    void *value = (char *)values + info->offset;
    int rc = check_text(in);

    must(in->text != NULL);
    if (rc == 0 && info->type == SETTING_TYPE_NUMBER)
        return check_number(in, value);
    if (rc == 0 && info->type == SETTING_TYPE_BOOL)
        return check_bool(in, value);
    if (rc == 0 && info->type == SETTING_TYPE_CHOICE)
        rc = check_choice(in);
    if (rc == 0 && info->type == SETTING_TYPE_ADDRESS)
        rc = check_address(in);
    if (rc == 0)
        *(const char **)value = in->text;
    return rc;
}

int setting_put(struct settings_set *set, const struct setting_info *info,
                enum setting_source source, const char *text, const char *place, struct err *err)
{
    struct setting_slot *slot = &set->slot[info - set->program->info];
    CLEANUP(xfreep) char *copy = xstrdup(text);
    const struct setting_text in = {
        .info = info,
        .text = copy,
        .place = place,
        .terse = set->program->terse && source != SETTING_YAML,
        .err = err,
    };

    must(slot->text == NULL || source >= slot->source);
    /* values then points to the copy; after a failed check, still to the old text. */
    const int rc = table_check(&in, set->values);
    if (rc < 0)
        return rc;
    xfree(slot->text);
    xfree(slot->origin);
    slot->text = STEAL(copy);
    slot->origin = source == SETTING_DEFAULT ? NULL : xstrdup(place);
    slot->source = source;
    return 0;
}
