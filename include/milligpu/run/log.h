/*
 * log - writes events to stderr, one line each, as JSON or text.
 *
 *   {"ts":"2026-01-02T03:04:05.678Z","level":"info","msg":"pod bound","request":17,"pod":"ns/a"}
 *
 * The message is constant; the facts are fields, made by log_str() and similar macros. Only app and
 * bin log at info and above. Thread-safe: a line is one write.
 *
 * Lines are rate-limited per message (except debug), because a user who can create pods can cause
 * the same message a thousand times a second. The first line after a limit has the number of
 * suppressed lines, and a metric counts them.
 */
#ifndef MILLIGPU_LOG_H
#define MILLIGPU_LOG_H

#include "milligpu/base/text.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_field {
    const char *key;
    enum { LOG_FIELD_STR, LOG_FIELD_TEXT, LOG_FIELD_I64 } kind;
    const char *str;
    struct text text;
    int64_t number;
};

#define log_str(k, v)                                                                              \
    (struct log_field)                                                                             \
    {                                                                                              \
        .key = (k), .kind = LOG_FIELD_STR, .str = (v)                                              \
    }
#define log_text(k, v)                                                                             \
    (struct log_field)                                                                             \
    {                                                                                              \
        .key = (k), .kind = LOG_FIELD_TEXT, .text = (v)                                            \
    }
#define log_i64(k, v)                                                                              \
    (struct log_field)                                                                             \
    {                                                                                              \
        .key = (k), .kind = LOG_FIELD_I64, .number = (int64_t)(v)                                  \
    }

enum { LOG_LINES_MAX = 100, LOG_PACE_MS = 60 * 1000 };

void log_set(enum log_level least, bool json);
/* Sets the rate limit per message; the default is LOG_LINES_MAX lines per LOG_PACE_MS. */
void log_set_pace(uint32_t lines, int64_t per_ms);
bool log_wants(enum log_level level);
bool log_level_parse(const char *text, enum log_level *out);

void log_event(enum log_level level, const char *msg, const struct log_field *field, size_t count);

/* log_write(LOG_INFO, "pod bound", log_str("pod", name), log_i64("milli", 300)); */
#define log_write(level, msg, ...)                                                                 \
    do {                                                                                           \
        if (log_wants(level)) {                                                                    \
            const struct log_field log_fields_[] = {__VA_ARGS__};                                  \
            log_event((level), (msg), log_fields_, ARRAY_LEN(log_fields_));                        \
        }                                                                                          \
    } while (0)
#define log_plain(level, msg) log_event((level), (msg), NULL, 0)

#endif
