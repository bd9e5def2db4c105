/*
 * Validates a parameter by its schema in routes.def, which is also the schema in /openapi.json.
 * Called by the router in an admin thread, for each parameter and each placeholder of the path.
 * Lengths are in bytes, because every pattern is ASCII. Patterns are constant, have no
 * back-references, and are matched against at most maxLength bytes, so a match takes bounded time.
 */
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "api_internal.h"

enum { WORDS_MAX = 24 };

/* The keywords of JSON Schema that are enforced; -1 if not given. */
struct schema_rules {
    const char *type;
    const char *pattern;
    const char *format;
    const char *right; /* description of valid values, for refusals */
    const char *word[WORDS_MAX];
    size_t n_words;
    int64_t min_length;
    int64_t max_length;
    int64_t minimum;
    int64_t maximum;
};

/* --- reading --- */

static void schema_read_words(struct json_reader *in, struct schema_rules *rules)
{
    json_read_array(in);
    while (json_read_element(in)) {
        must(rules->n_words < WORDS_MAX);
        (void)json_read_cstring(in, &rules->word[rules->n_words++]);
    }
}

/* Ignores other keywords, which only document. An invalid schema is a bug in routes.def. */
static void schema_read(struct arena *arena, const char *schema, struct schema_rules *out)
{
    static const char *const keys[] = {"type",      "pattern",   "format",  "description", "enum",
                                       "minLength", "maxLength", "minimum", "maximum"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct json_reader in;
    struct err err;
    int key;

    *out = (struct schema_rules){
        .type = "", .right = "", .min_length = -1, .max_length = -1, .minimum = -1, .maximum = -1};
    const char **const text[] = {&out->type, &out->pattern, &out->format, &out->right};
    int64_t *const number[] = {&out->min_length, &out->max_length, &out->minimum, &out->maximum};
    json_reader_init(&in, text_of(schema), "schema", arena, &err);
    json_read_object(&in);
    while (json_read_field(&in, &fields, &key)) {
        if (key < 4)
            (void)json_read_cstring(&in, text[key]);
        else if (key == 4)
            schema_read_words(&in, out);
        else
            (void)json_read_i64(&in, number[key - 5]);
    }
    must(json_reader_finish(&in) == 0);
}

/* --- checking --- */

/* Accepts digits as in JSON, without leading zeros; at most 18, which fit in 64 bits. */
static bool schema_is_number(const struct schema_rules *rules, const char *value)
{
    const size_t digits = strspn(value, "0123456789");
    int64_t number = 0;

    must(rules->minimum >= 0 && rules->maximum >= rules->minimum);
    if (digits == 0 || digits > 18 || value[digits] != '\0' || (value[0] == '0' && digits > 1))
        return false;
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (value[i] - '0');
    return number >= rules->minimum && number <= rules->maximum;
}

static bool schema_has_word(const struct schema_rules *rules, const char *value)
{
    must(rules->n_words > 0);
    for (size_t i = 0; i < rules->n_words; i++)
        if (strcmp(rules->word[i], value) == 0)
            return true;
    return false;
}

static bool schema_matches(const char *pattern, const char *value)
{
    regex_t compiled;

    must(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    const bool matches = regexec(&compiled, value, 0, NULL, 0) == 0;
    regfree(&compiled);
    return matches;
}

bool api_time_read(const char *value, int64_t *out_ms)
{
    char text[64];
    const size_t bytes = strlen(value);

    if (bytes < sizeof "+00:00" || bytes >= sizeof text)
        return false;
    memcpy(text, value, bytes + 1);
    /* A '+' that is not escaped in the URL arrives as a blank. */
    char *sign = &text[bytes - strlen("+00:00")];
    if (*sign == ' ')
        *sign = '+';
    return time_parse(text_of(text), out_ms);
}

/* The length is checked first, because it bounds the time of the pattern. */
static bool schema_takes(const struct schema_rules *rules, const char *value)
{
    const int64_t bytes = (int64_t)strlen(value);
    int64_t ms;

    if (strcmp(rules->type, "integer") == 0)
        return schema_is_number(rules, value);
    must(strcmp(rules->type, "string") == 0);
    if (rules->n_words > 0)
        return schema_has_word(rules, value);
    must(rules->max_length > 0 && (rules->pattern != NULL || rules->format != NULL));
    if (bytes < rules->min_length || bytes > rules->max_length)
        return false;
    if (rules->format != NULL)
        return strcmp(rules->format, "date-time") == 0 && api_time_read(value, &ms);
    return schema_matches(rules->pattern, value);
}

/* "a whole number from 1 to 1000", "reserved, bound or released", or the schema's description. */
static void schema_describe(const struct schema_rules *rules, char *out, size_t bytes)
{
    size_t used = 0;

    must(bytes > 0);
    (void)snprintf(out, bytes, "%s", rules->right);
    if (rules->maximum >= 0)
        (void)snprintf(out, bytes, "a whole number from %lld to %lld", (long long)rules->minimum,
                       (long long)rules->maximum);
    for (size_t i = 0; i < rules->n_words && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s",
                                 i == 0                   ? ""
                                 : i + 1 < rules->n_words ? ", "
                                                          : " or ",
                                 rules->word[i]);
    must(out[0] != '\0');
}

bool api_schema_check(struct api_call *call, struct text name, const char *schema,
                      const char *value)
{
    struct schema_rules rules;
    char right[300];

    must(call->status < 400 && name.len > 0);
    schema_read(&call->arena, schema, &rules);
    if (schema_takes(&rules, value))
        return true;
    schema_describe(&rules, right, sizeof right);
    api_fail(call, 400, "%.*s is %.60s: it is %s", TEXT_ARG(name),
             value[0] != '\0' ? value : "empty", right);
    return false;
}
