/*
 * The table of settings: types, values, suggestions for mistyped names. Called by the other files
 * of settings; constant, so any thread may read it. Every value passes through setting_put(),
 * whatever its source, so a text means the same in a file, a variable and a flag. Every error says
 * what would be right. First the table, then names, then values.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/http.h"
#include "milligpu/limits.h"

#include "settings/settings_internal.h"

static const struct setting_info infos[] = {
#define SETTING(id, type, fallback, low, high, reload, unit, help)                                 \
    {#id, fallback, unit,  help, offsetof(struct settings, id), SETTING_TYPE_##type,               \
     low, high,     reload},
#include "milligpu/settings.def"
#undef SETTING
};

static_assert(ARRAY_LEN(infos) == SETTINGS, "one row for each setting");

/* The titles in the order of the table, and NULL for each setting. */
static const char *const titles[] = {
#define SETTING(id, type, fallback, low, high, reload, unit, help) NULL,
#define SETTING_GROUP(title)                                       title,
#include "milligpu/settings.def"
#undef SETTING
};

const struct setting_info *setting_info(enum setting_id id)
{
    must((size_t)id < SETTINGS);
    return &infos[id];
}

const char *setting_group(enum setting_id id)
{
    size_t at = 0;

    must((size_t)id < SETTINGS);
    for (size_t settings = 0; settings < (size_t)id; at++)
        settings += titles[at] == NULL;
    must(at < ARRAY_LEN(titles));
    return titles[at];
}

const char *settings_name(enum setting_id id)
{
    return setting_info(id)->name;
}

bool settings_reloadable(enum setting_id id)
{
    return setting_info(id)->reload;
}

const char *settings_source_name(enum setting_source source)
{
    static const char *const names[] = {"default", "file", "environment", "flag"};

    must((size_t)source < ARRAY_LEN(names));
    return names[source];
}

const char *setting_word(enum setting_id id)
{
    static const char *const words[] = {"TEXT", "FILE", "HOST:PORT", "WORD", "true|false", "N"};

    must(setting_info(id)->type < ARRAY_LEN(words));
    return words[setting_info(id)->type];
}

/* 80 bytes are enough for every name in settings.def: the must below checks it. */
void setting_flag(enum setting_id id, char *out, size_t bytes)
{
    const int len = snprintf(out, bytes, "--%s", settings_name(id));

    must(len > 0 && (size_t)len < bytes);
    for (char *at = out; *at != '\0'; at++)
        if (*at == '_')
            *at = '-';
}

void setting_variable(enum setting_id id, char *out, size_t bytes)
{
    const int len = snprintf(out, bytes, "MILLIGPU_%s", settings_name(id));

    must(len > 0 && (size_t)len < bytes);
    for (char *at = out; *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
}

/* --- names --- */

/* dash stands for the '_' of the name, so flags and keys need no copy. Exact: case counts. */
enum setting_id setting_find(struct text name, char dash)
{
    must(dash == '_' || dash == '-');
    for (int id = 0; id < SETTINGS; id++) {
        const char *known = infos[id].name;
        size_t at = 0;
        while (at < name.len && known[at] != '\0' &&
               name.at[at] == (known[at] == '_' ? dash : known[at]))
            at++;
        if (at == name.len && known[at] == '\0')
            return (enum setting_id)id;
    }
    return SETTINGS;
}

/* A longer name is no slip of any setting's name. */
enum { NEAR_BYTES = 64 };

/*
 * Case and dashes do not count here, so MILLIGPU_wake and --log_level get their suggestion. A short
 * name allows fewer slips: one letter in three.
 */
const char *setting_nearest(struct text name)
{
    const char *nearest = NULL;
    size_t best = 3; /* two slips are a typo, three are another word */
    char plain[NEAR_BYTES];

    must(name.at != NULL);
    if (name.len > NEAR_BYTES)
        return NULL;
    for (size_t i = 0; i < name.len; i++)
        plain[i] = name.at[i] == '-' ? '_' : (char)tolower((unsigned char)name.at[i]);
    for (int id = 0; id < SETTINGS; id++) {
        const size_t slips = text_distance((struct text){plain, name.len}, text_of(infos[id].name));
        if (slips < best && slips <= strlen(infos[id].name) / 3) {
            best = slips;
            nearest = infos[id].name;
        }
    }
    return nearest;
}

/* --- values --- */

struct judged {
    enum setting_id id;
    const char *text;
    const char *place;
    struct err *err;
};

/* "config.yaml:3: wake: "x" is not one of: object node off". */
static int table_wrong(const struct judged *in, const char *right)
{
    must(in->place != NULL);
    char shown[80];

    text_clip(text_of(in->text), shown, sizeof shown);
    return err_set(in->err, ERR_INVALID, "%s: %s: \"%s\" %s", in->place, settings_name(in->id),
                   shown, right);
}

/* One line of plain text, because --print-config must write a file that loads again. */
static int judge_text(const struct judged *in)
{
    CLEANUP(strbuf_done) struct strbuf json;

    strbuf_init(&json);
    if (strlen(in->text) > SETTING_BYTES_MAX)
        return table_wrong(in, "is longer than 4096 bytes");
    for (const char *at = in->text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return table_wrong(in, "holds a control character: write it on one line, without tabs");
    /* What is not UTF-8 could be neither logged nor printed as a file that loads. */
    strbuf_json(&json, text_of(in->text));
    if (strstr(json.data, "\xEF\xBF\xBD") != NULL)
        return table_wrong(in, "is not UTF-8");
    return 0;
}

/*
 * Digits only: strtoul() would take blanks, a sign and 0x. The loop stops before it can overflow.
 */
static int judge_number(const struct judged *in, uint32_t *out)
{
    const struct setting_info *info = setting_info(in->id);
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
    (void)snprintf(right, sizeof right, "is not a whole number from %u to %u (%s)", info->low,
                   info->high, info->unit);
    return table_wrong(in, right);
}

/* Not yes, on or 1: variables and flags have no YAML reader, and all sources must agree. */
static int judge_bool(const struct judged *in, bool *out)
{
    must(setting_info(in->id)->type == SETTING_TYPE_BOOL);
    if (strcmp(in->text, "true") != 0 && strcmp(in->text, "false") != 0)
        return table_wrong(in, "is not true or false");
    *out = in->text[0] == 't';
    return 0;
}

/* unit holds the words, with one blank between them. */
static int judge_choice(const struct judged *in)
{
    struct text rest = text_of(setting_info(in->id)->unit);
    struct text word;
    char right[100];

    must(rest.len > 0);
    while (text_cut(&rest, ' ', &word))
        if (text_is(word, in->text))
            return 0;
    (void)snprintf(right, sizeof right, "is not one of: %s", setting_info(in->id)->unit);
    return table_wrong(in, right);
}

/* Empty means off; whether this listener may be off is for check_listeners(). */
static int judge_address(const struct judged *in)
{
    must(in->err != NULL);
    if (in->text[0] == '\0' || http_address_check(in->text, in->err) == 0)
        return 0;
    return err_wrap(in->err, "%s: %s", in->place, settings_name(in->id));
}

/*
 * Checks a text and stores its value where struct settings has it; a failure leaves the old value.
 * A text is stored as the slot's pointer, so the slot must keep it.
 */
static int table_judge(const struct judged *in, struct settings *values)
{
    const struct setting_info *info = setting_info(in->id);
    void *value = (char *)values + info->offset;
    int rc = judge_text(in);

    must(in->text != NULL);
    if (rc == 0 && info->type == SETTING_TYPE_NUMBER)
        return judge_number(in, value);
    if (rc == 0 && info->type == SETTING_TYPE_BOOL)
        return judge_bool(in, value);
    if (rc == 0 && info->type == SETTING_TYPE_CHOICE)
        rc = judge_choice(in);
    if (rc == 0 && info->type == SETTING_TYPE_ADDRESS)
        rc = judge_address(in);
    if (rc == 0)
        *(const char **)value = in->text;
    return rc;
}

int setting_put(struct settings_set *set, enum setting_id id, enum setting_source source,
                const char *text, const char *place, struct err *err)
{
    struct setting_slot *slot = &set->slot[id];
    CLEANUP(xfreep) char *copy = xstrdup(text);
    const struct judged in = {id, copy, place, err};

    must(slot->text == NULL || source >= slot->source);
    /* values keeps a pointer to the copy. If the check fails, it still points to the old text. */
    const int rc = table_judge(&in, &set->values);
    if (rc < 0)
        return rc;
    xfree(slot->text);
    xfree(slot->place);
    slot->text = STEAL(copy);
    slot->place = source == SETTING_DEFAULT ? NULL : xstrdup(place);
    slot->source = source;
    return 0;
}

/* A default that its own check refuses is a mistake in settings.def and ends the program. */
struct settings_set *settings_defaults(void)
{
    struct settings_set *set = xcalloc(1, sizeof *set);
    struct err err;

    for (int id = 0; id < SETTINGS; id++) {
        const int rc = setting_put(set, (enum setting_id)id, SETTING_DEFAULT, infos[id].fallback,
                                   "settings.def", &err);
        must(rc == 0);
    }
    return set;
}
