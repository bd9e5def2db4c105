#include "milligpu/log.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/strbuf.h"

static atomic_int least_level = LOG_INFO;
static atomic_bool as_json;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set(enum log_level least, bool json)
{
    must(least <= LOG_ERROR);

    atomic_store(&least_level, (int)least);
    atomic_store(&as_json, json);
}

bool log_wants(enum log_level level)
{
    return (int)level >= atomic_load(&least_level);
}

bool log_level_parse(const char *text, enum log_level *out)
{
    must(text != NULL && out != NULL);
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static void add_now(struct strbuf *line)
{
    struct timespec now;
    struct tm utc;
    char text[32];

    must(clock_gettime(CLOCK_REALTIME, &now) == 0);
    must(gmtime_r(&now.tv_sec, &utc) != NULL);
    must(strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc) > 0);
    strbuf_printf(line, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static struct text field_text(const struct log_field *field)
{
    must(field->kind == LOG_FIELD_TEXT || field->kind == LOG_FIELD_STR);
    return field->kind == LOG_FIELD_TEXT ? field->text : text_of(field->str);
}

/* Text that needs no quotes stays bare; everything else is written as in JSON. */
static bool is_bare(struct text text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.at[i];
        if (c <= ' ' || c == '"' || c == '\\' || c == '=' || c >= 0x7f)
            return false;
    }
    return text.len > 0;
}

static void add_json(struct strbuf *line, enum log_level level, const char *msg,
                     const struct log_field *field, size_t count)
{
    strbuf_str(line, "{\"ts\":\"");
    add_now(line);
    strbuf_printf(line, "\",\"level\":\"%s\",\"msg\":", level_names[level]);
    strbuf_json(line, text_of(msg));
    for (size_t i = 0; i < count; i++) {
        strbuf_printf(line, ",\"%s\":", field[i].key);
        if (field[i].kind == LOG_FIELD_I64)
            strbuf_printf(line, "%lld", (long long)field[i].number);
        else
            strbuf_json(line, field_text(&field[i]));
    }
    strbuf_char(line, '}');
}

static void add_plain(struct strbuf *line, enum log_level level, const char *msg,
                      const struct log_field *field, size_t count)
{
    add_now(line);
    strbuf_printf(line, " %-5s %s", level_names[level], msg);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf(line, " %s=", field[i].key);
        if (field[i].kind == LOG_FIELD_I64)
            strbuf_printf(line, "%lld", (long long)field[i].number);
        else if (is_bare(field_text(&field[i])))
            strbuf_text(line, field_text(&field[i]));
        else
            strbuf_json(line, field_text(&field[i]));
    }
}

void log_event(enum log_level level, const char *msg, const struct log_field *field, size_t count)
{
    struct strbuf line;

    must(level <= LOG_ERROR);
    must(msg != NULL && (field != NULL || count == 0));
    if (!log_wants(level))
        return;
    strbuf_init(&line);
    if (atomic_load(&as_json))
        add_json(&line, level, msg, field, count);
    else
        add_plain(&line, level, msg, field, count);
    strbuf_char(&line, '\n');
    /* A log that cannot be written has nobody to complain to. */
    const ssize_t written = write(STDERR_FILENO, line.data, line.len);
    (void)written;
    strbuf_done(&line);
}
