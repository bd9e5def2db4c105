/*
 * A command line and an environment are read, or refused with the flag or variable. Variables set
 * the same values as flags. No file is read here: fuzz_settings_file covers files.
 *
 * Input: words ended by a NUL or a newline; those that begin with MILLIGPU_ are variables.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"

#include "settings/settings_internal.h"
#include "support.h"

enum { WORDS_MAX = 24 };

struct line {
    char *argv[WORDS_MAX + 2];
    char *envp[WORDS_MAX + 2];
    int argc;
    int envs;
};

static void line_read(struct line *line, struct arena *arena, struct pieces pieces)
{
    line->argv[line->argc++] = arena_copy(arena, TEXT("milligpud"));
    for (int i = 0; i < WORDS_MAX && pieces.left > 0; i++) {
        char *word = arena_copy(arena, pieces_until(&pieces, '\n'));
        if (strncmp(word, "MILLIGPU_CONFIG=", 16) == 0 || strncmp(word, "--config", 8) == 0)
            continue;
        if (strncmp(word, "MILLIGPU_", 9) == 0)
            line->envp[line->envs++] = word;
        else
            line->argv[line->argc++] = word;
    }
}

static bool is_set(const struct settings_set *set, int id)
{
    return set->slot[id].source != SETTING_DEFAULT;
}

/* The same settings, given only as variables. */
static void give_as_variables(const struct settings_set *set, struct arena *arena)
{
    struct settings_set *again = NULL;
    enum settings_action action;
    char *argv[] = {arena_copy(arena, TEXT("milligpud")), NULL};
    char *envp[SETTINGS + 1] = {NULL};
    int envs = 0;
    struct err err;
    for (int id = 0; id < SETTINGS; id++) {
        char name[80];
        if (!is_set(set, id))
            continue;
        setting_variable(&milligpud_settings, &milligpud_settings.info[id], name, sizeof name);
        envp[envs++] = arena_printf(arena, "%s=%s", name, set->slot[id].text);
    }
    must(settings_load(1, argv, envp, &again, &action, &err) == 0 && action == SETTINGS_RUN);
    for (int id = 0; id < SETTINGS; id++) {
        must(strcmp(set->slot[id].text, again->slot[id].text) == 0);
        must(settings_source(again, (enum setting_id)id) ==
             (is_set(set, id) ? SETTING_ENVIRONMENT : SETTING_DEFAULT));
    }
    settings_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line line = {.argc = 0};
    struct settings_set *set = NULL;
    enum settings_action action;
    SCOPED_ARENA(arena);
    struct err err;
    line_read(&line, &arena, pieces_of(data, size));
    const size_t before = heap_bytes();
    if (settings_load(line.argc, line.argv, line.envp, &set, &action, &err) == 0) {
        heap_is_bounded(before, size);
        if (action != SETTINGS_HELP && action != SETTINGS_VERSION) {
            must(settings_cross_check(set, &err) == 0);
            give_as_variables(set, &arena);
        }
    } else {
        must(set == NULL && err.text[0] != '\0');
    }
    settings_free(set);
    return 0;
}
