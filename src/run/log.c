/*
 * Writes log lines to stderr, from any thread. A line is built in memory and written by one
 * write(), so that lines of threads do not mix (a pipe guarantees that up to 4 KiB). One lock
 * guards the counts of repeated lines; nothing is written or allocated under it.
 */
#include "milligpu/run/log.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

enum { MESSAGES_MAX = 64, FIELDS_MAX = 12 };

/* Line counts of one message; messages without a free entry share the last. */
struct line_count {
    const char *msg;
    int64_t began_ms;
    uint32_t lines;
    int64_t left_out; /* lines suppressed since the last written one */
};

static atomic_int least_level = LOG_INFO;
static atomic_bool as_json;
static struct mutex counting = MUTEX_INITIALIZER; /* guards the variables below */
static struct line_count tallies[MESSAGES_MAX];
static uint32_t pace_lines = LOG_LINES_MAX;
static int64_t pace_ms = LOG_PACE_MS;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set(enum log_level least, bool json)
{
    must(least <= LOG_ERROR);

    atomic_store(&least_level, (int)least);
    atomic_store(&as_json, json);
}

void log_set_pace(uint32_t lines, int64_t per_ms)
{
    must(lines > 0 && per_ms > 0);
    mutex_lock(&counting);
    pace_lines = lines;
    pace_ms = per_ms;
    mutex_unlock(&counting);
}

/* Keeps the pointer msg: messages are constants. */
static struct line_count *tally_of(const char *msg) REQUIRES(counting)
{
    size_t at = 0;

    while (at + 1 < MESSAGES_MAX && tallies[at].msg != NULL && strcmp(tallies[at].msg, msg) != 0)
        at++;
    if (tallies[at].msg == NULL)
        tallies[at] = (struct line_count){.msg = msg, .began_ms = INT64_MIN / 2};
    must(at < MESSAGES_MAX);
    return &tallies[at];
}

/* True if the rate limit allows a line; *out_left_out is the number of lines suppressed before. */
static bool may_write(const char *msg, int64_t *out_left_out)
{
    /* Monotonic: a step of the wall clock must not change the limit. */
    const int64_t now_ms = clock_ns() / 1000000;

    mutex_lock(&counting);
    struct line_count *tally = tally_of(msg);
    if (now_ms - tally->began_ms >= pace_ms) {
        tally->began_ms = now_ms;
        tally->lines = 0;
    }
    const bool may = tally->lines < pace_lines;
    if (may) {
        tally->lines++;
        *out_left_out = tally->left_out;
        tally->left_out = 0;
    } else {
        tally->left_out++;
    }
    mutex_unlock(&counting);
    return may;
}

bool log_wants(enum log_level level)
{
    return (int)level >= atomic_load(&least_level);
}

bool log_level_parse(const char *text, enum log_level *out)
{
    must(text != NULL);
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* Wall-clock UTC with milliseconds, only for people. */
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

/* True for text that needs no quotes; other text is written as in JSON. */
static bool log_is_bare(struct text text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.at[i];
        if (c <= ' ' || c == '"' || c == '\\' || c == '=' || c >= 0x7f)
            return false;
    }
    return text.len > 0;
}

/* Keys are our constants and need no escapes; values are untrusted. */
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

/* The message is bare, because it is a constant. */
static void add_plain(struct strbuf *line, enum log_level level, const char *msg,
                      const struct log_field *field, size_t count)
{
    add_now(line);
    strbuf_printf(line, " %-5s %s", level_names[level], msg);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf(line, " %s=", field[i].key);
        if (field[i].kind == LOG_FIELD_I64)
            strbuf_printf(line, "%lld", (long long)field[i].number);
        else if (log_is_bare(field_text(&field[i])))
            strbuf_text(line, field_text(&field[i]));
        else
            strbuf_json(line, field_text(&field[i]));
    }
}

static void write_line(enum log_level level, const char *msg, const struct log_field *field,
                       size_t count)
{
    struct strbuf line;

    must(msg != NULL && (field != NULL || count == 0));
    strbuf_init(&line);
    if (atomic_load(&as_json))
        add_json(&line, level, msg, field, count);
    else
        add_plain(&line, level, msg, field, count);
    strbuf_char(&line, '\n');
    /* A failure to write the log cannot be reported. */
    const ssize_t written = write(STDERR_FILENO, line.data, line.len);
    (void)written;
    strbuf_done(&line);
}

void log_event(enum log_level level, const char *msg, const struct log_field *field, size_t count)
{
    struct log_field all[FIELDS_MAX + 1];
    int64_t left_out = 0;

    must(level <= LOG_ERROR && count <= FIELDS_MAX);
    if (!log_wants(level))
        return;
    /* Debug lines are not limited: a user who enables them needs all. */
    if (level > LOG_DEBUG && !may_write(msg, &left_out)) {
        metric_add(M_LOG_SUPPRESSED, NULL, 1);
        return;
    }
    /* Copied, to append the number of suppressed lines as a field. */
    if (count > 0)
        memcpy(all, field, count * sizeof *field);
    if (left_out > 0)
        all[count++] = log_i64("suppressed", left_out);
    write_line(level, msg, all, count);
}
