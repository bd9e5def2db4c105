#include "shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"

#include "bin/command_table.h"

enum { WORDS_MAX = 24 };

static char line[1024];
static char *word[WORDS_MAX + 1];

static int split(const char *words)
{
    int count = 1;
    char *at = line;

    static char program[] = "milligpuctl";
    assert_true(strlen(words) < sizeof line);
    memcpy(line, words, strlen(words) + 1);
    word[0] = program;
    while (*at != '\0') {
        assert_true(count < WORDS_MAX);
        word[count++] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    word[count] = NULL;
    return count;
}

static void open_streams(struct shown *shown, FILE **out, FILE **err)
{
    *out = open_memstream(&shown->out, &shown->out_bytes);
    *err = open_memstream(&shown->err, &shown->err_bytes);
    assert_non_null(*out);
    assert_non_null(*err);
}

void shown_begin(struct shown *shown, const char *words)
{
    static const char *const formats[] = {"table", "wide", "json", "yaml", "name"};
    struct err err;

    *shown = (struct shown){0};
    open_streams(shown, &shown->ctl.screen.out, &shown->ctl.err);
    arena_init(&shown->ctl.arena);
    arena_init(&shown->ctl.kept);
    const int count = split(words);
    if (options_parse(&milligpuctl_commands, count, word, &shown->ctl.options, &err) < 0)
        fail_msg("%s", err.text);
    const char *const *given = shown->ctl.options.given;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (given[OPTION_output] != NULL && strcmp(given[OPTION_output], formats[i]) == 0)
            shown->ctl.format = (enum format)i;
    shown->ctl.screen.headers = given[OPTION_no_headers] == NULL;
    shown->ctl.screen.sort_by = given[OPTION_sort_by];
    shown->ctl.screen.wide = shown->ctl.format == FORMAT_WIDE;
    shown->ctl.screen.bars = given[OPTION_bars] != NULL;
    shown->ctl.screen.now_ms = NOW_MS;
}

void shown_end(struct shown *shown)
{
    assert_int_equal(fclose(shown->ctl.screen.out), 0);
    assert_int_equal(fclose(shown->ctl.err), 0);
}

void shown_free(struct shown *shown)
{
    options_done(&shown->ctl.options);
    arena_done(&shown->ctl.arena);
    arena_done(&shown->ctl.kept);
    free(shown->out);
    free(shown->err);
}

struct document *answer(struct shown *shown, const char *json)
{
    struct document *value;
    struct err err;

    if (document_parse_json(text_of(json), "answer", &shown->ctl.arena, &value, &err) < 0)
        fail_msg("%s", err.text);
    return value;
}

int run_program(struct shown *shown, const char *words)
{
    static const struct ctl_environment environment = {.commands = &milligpuctl_commands,
                                                       .width = 80};
    FILE *out;
    FILE *err;

    *shown = (struct shown){0};
    open_streams(shown, &out, &err);
    const int count = split(words);
    const int status = ctl_main(count, word, &environment, out, err);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(fclose(err), 0);
    return status;
}

static void assert_part(const char *words, const char *found, const char *part)
{
    if (part == NULL ? found[0] != '\0' : strstr(found, part) == NULL)
        fail_msg("%s: no \"%s\" in: %s", words, part != NULL ? part : "", found);
}

void program_says(const char *words, int status, const char *out, const char *err)
{
    struct shown shown;
    assert_int_equal(run_program(&shown, words), status);
    assert_part(words, shown.out, out);
    assert_part(words, shown.err, err);
    shown_free(&shown);
}

void write_file(const char *file, const char *text)
{
    FILE *out = fopen(file, "we");

    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}
