#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

#include "support/test.h"

static int kept_stderr = -1;
static FILE *caught;
static char text[1 << 20];

static int catch (void **state)
{
    (void)state;
    caught = tmpfile();
    kept_stderr = dup(STDERR_FILENO);
    must(caught != NULL && kept_stderr >= 0);
    must(dup2(fileno(caught), STDERR_FILENO) == STDERR_FILENO);
    log_set(LOG_DEBUG, false);
    return 0;
}

/* Reads what was logged so far into text. */
static void look(void)
{
    must(fseek(caught, 0, SEEK_SET) == 0);
    text[fread(text, 1, sizeof text - 1, caught)] = '\0';
    must(fseek(caught, 0, SEEK_END) == 0);
}

static int let_go(void **state)
{
    (void)state;
    must(dup2(kept_stderr, STDERR_FILENO) == STDERR_FILENO);
    must(close(kept_stderr) == 0);
    log_set(LOG_INFO, false);
    return fclose(caught);
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, catch, let_go)

/* "2026-01-02T03:04:05.678Z" */
static void assert_is_time(const char *at)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
    for (size_t i = 0; i < sizeof form - 1; i++) {
        if (form[i] == 'd')
            assert_in_range(at[i], '0', '9');
        else
            assert_int_equal(at[i], form[i]);
    }
}

FIXTURE_TEST(text_line__has_time_level_message_and_fields)
{
    log_write(LOG_INFO, "pod bound", log_str("pod", "default/web-0"), log_i64("milli", 300),
              log_text("node", TEXT("n1")), log_i64("least", INT64_MIN));
    look();
    assert_is_time(text);
    assert_string_equal(
        text + 24,
        " info  pod bound pod=default/web-0 milli=300 node=n1 least=-9223372036854775808\n");
}

FIXTURE_TEST(text_line__quotes_ambiguous_values)
{
    log_write(LOG_WARN, "odd", log_str("blank", "a b"), log_str("quote", "a\"b"),
              log_str("line", "a\nb"), log_str("equals", "a=b"), log_str("empty", ""),
              log_str("none", NULL), log_text("utf8", TEXT("\xc3\xa4")),
              log_text("broken", TEXT("\xff")), log_text("nul", TEXT("a\0b")));
    look();
    assert_string_equal(text + 24, " warn  odd blank=\"a b\" quote=\"a\\\"b\" line=\"a\\nb\" "
                                   "equals=\"a=b\" empty=\"\" none=\"\" utf8=\"\xc3\xa4\" "
                                   "broken=\"\xef\xbf\xbd\" nul=\"a\\u0000b\"\n");
}

FIXTURE_TEST(json_line__is_one_object)
{
    log_set(LOG_DEBUG, true);
    log_write(LOG_ERROR, "it \"failed\"", log_str("why", "a\n\"b\""), log_i64("request", 17));
    log_plain(LOG_DEBUG, "done");
    look();
    assert_int_equal(strncmp(text, "{\"ts\":\"", 7), 0);
    assert_is_time(text + 7);
    const char *second = strchr(text, '\n');
    assert_non_null(second);
    assert_int_equal(strncmp(text + 31,
                             "\",\"level\":\"error\",\"msg\":\"it \\\"failed\\\"\","
                             "\"why\":\"a\\n\\\"b\\\"\",\"request\":17}\n",
                             (size_t)(second + 1 - text - 31)),
                     0);
    assert_string_equal(second + 1 + 31, "\",\"level\":\"debug\",\"msg\":\"done\"}\n");
}

static int asked;

static const char *ask(void)
{
    asked++;
    return "x";
}

FIXTURE_TEST(log_level__evaluates_no_field_below_it)
{
    log_set(LOG_WARN, false);
    assert_false(log_wants(LOG_INFO));
    assert_true(log_wants(LOG_WARN));
    log_write(LOG_INFO, "quiet", log_str("a", ask()));
    log_plain(LOG_DEBUG, "quiet");
    look();
    assert_string_equal(text, "");
    assert_int_equal(asked, 0);
    log_write(LOG_WARN, "loud", log_str("a", ask()));
    look();
    assert_non_null(strstr(text, " warn  loud a=x\n"));
    assert_int_equal(asked, 1);
}

FIXTURE_TEST(log_level__is_parsed_from_its_exact_name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const wrong[] = {"", "INFO", "warning", "inf", "infos", " info"};
    enum log_level level = LOG_ERROR;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(log_level_parse(names[i], &level));
        assert_int_equal(level, i);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        level = LOG_WARN;
        assert_false(log_level_parse(wrong[i], &level));
        assert_int_equal(level, LOG_WARN);
    }
}

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *arg)
{
    for (int i = 0; i < LINES; i++)
        log_write(LOG_DEBUG, "line", log_str("a", "0123456789012345678901234567890123456789"),
                  log_str("by", arg));
    return NULL;
}

FIXTURE_TEST(log__does_not_mix_lines_of_threads)
{
    pthread_t thread[THREADS];
    char name[THREADS][2];
    size_t count = 0;
    for (size_t i = 0; i < THREADS; i++) {
        name[i][0] = (char)('a' + i);
        name[i][1] = '\0';
        assert_int_equal(pthread_create(&thread[i], NULL, write_lines, name[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    look();
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_is_time(line);
        assert_int_equal(strcspn(line, "\n"), 24 + 11 + 43 + 5);
        count++;
    }
    assert_int_equal(count, THREADS * LINES);
}

/* How often the text occurs in what was logged. */
static unsigned count_lines(const char *end)
{
    unsigned count = 0;

    look();
    for (const char *at = text; (at = strstr(at, end)) != NULL; at++)
        count++;
    return count;
}

static void add_up(void *user, const char *labels, int64_t value)
{
    (void)labels;
    *(int64_t *)user += value;
}

static int64_t left_out(void)
{
    int64_t sum = 0;

    metric_each(M_LOG_SUPPRESSED, &sum, add_up);
    return sum;
}

FIXTURE_TEST(log_pace__limits_the_lines_of_one_message)
{
    static const struct timespec pause = {.tv_nsec = 500 * 1000 * 1000};
    const int64_t before = left_out();

    log_set_pace(20, 400);
    for (int i = 0; i < 1000; i++)
        log_write(LOG_WARN, "a tenant did it", log_i64("i", i));
    log_plain(LOG_ERROR, "another matter");
    const unsigned lines = count_lines(" warn  a tenant did it i=");
    assert_in_range(lines, 20, 200); /* a machine that stalls writes more, but far from all */
    assert_int_equal(count_lines(" another matter\n"), 1);
    assert_int_equal(left_out() - before, 1000 - lines);
    (void)nanosleep(&pause, NULL);
    log_plain(LOG_WARN, "a tenant did it");
    log_plain(LOG_WARN, "a tenant did it");
    assert_int_equal(count_lines(" a tenant did it\n"), 1);
    char last[64];
    (void)snprintf(last, sizeof last, " a tenant did it suppressed=%u\n", 1000 - lines);
    if (lines == 20) /* otherwise some were reported on the way */
        assert_int_equal(count_lines(last), 1);
    log_set_pace(LOG_LINES_MAX, LOG_PACE_MS);
}

FIXTURE_TEST(log_pace__spares_debug_and_shares_a_limit_of_many_messages)
{
    static char name[200][16];

    for (int i = 0; i < 500; i++)
        log_plain(LOG_DEBUG, "talk");
    assert_int_equal(count_lines(" talk\n"), 500);
    log_set_pace(2, LOG_PACE_MS);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name[i], sizeof name[i], "m%d", i);
        log_plain(LOG_INFO, name[i]);
    }
    assert_in_range(count_lines(" info  m"), 2, 64);
    log_set_pace(LOG_LINES_MAX, LOG_PACE_MS);
}
