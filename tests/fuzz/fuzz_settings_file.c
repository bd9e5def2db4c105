/*
 * A settings file is read, or refused with its name and place. What was read, printed as a file,
 * reads the same, and given as flags it is the same too.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "settings/settings_internal.h"
#include "support.h"

/* A file that exists only in memory: its name stays, its bytes change. */
static const char *put(const char *bytes, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("settings", MFD_CLOEXEC);
        must(fd >= 0);
        must(snprintf(path, sizeof path, "/proc/self/fd/%d", fd) > 0);
    }
    must(ftruncate(fd, 0) == 0);
    must(pwrite(fd, bytes, size, 0) == (ssize_t)size);
    return path;
}

static void same_values(const struct settings_set *a, const struct settings_set *b)
{
    for (int id = 0; id < SETTINGS; id++)
        must(strcmp(a->slot[id].text, b->slot[id].text) == 0);
}

static void print_and_read(const struct settings_set *set)
{
    struct settings_set *again = settings_defaults(&milligpud_settings);
    SCOPED_STRBUF(out);
    struct err err;
    settings_print(&out, set);
    must(settings_read_file(again, put(out.data, out.len), &err) == 0);
    same_values(set, again);
    settings_free(again);
}

/* The settings of the file as --name=value; settings_load() also checks them against each other. */
static void give_as_flags(const struct settings_set *set)
{
    struct settings_set *again = NULL;
    enum settings_action action;
    char *argv[SETTINGS + 1] = {(char[]){"milligpud"}};
    char *envp[] = {NULL};
    int argc = 1;
    struct err err;
    for (int id = 0; id < SETTINGS; id++) {
        char flag[80];
        struct strbuf text;
        if (set->slot[id].source != SETTING_YAML)
            continue;
        strbuf_init(&text);
        setting_flag(&milligpud_settings.info[id], flag, sizeof flag);
        strbuf_printf(&text, "%s=%s", flag, set->slot[id].text);
        argv[argc++] = strbuf_steal(&text);
    }
    const bool good = settings_load(argc, argv, envp, &again, &action, &err) == 0;
    must(good == (settings_cross_check(set, &err) == 0));
    if (good)
        same_values(set, again);
    settings_free(again);
    while (--argc > 0)
        xfree(argv[argc]);
}

/* Every value is within the limits of the table. */
static void check(const struct settings_set *set)
{
    for (int id = 0; id < SETTINGS; id++) {
        const struct setting_info *info = &milligpud_settings.info[id];
        const char *text = set->slot[id].text;
        must(strlen(text) <= SETTING_BYTES_MAX);
        if (info->type == SETTING_TYPE_NUMBER) {
            const unsigned long number = strtoul(text, NULL, 10);
            must(number >= info->low && number <= info->high);
        }
        if (info->type == SETTING_TYPE_BOOL)
            must(strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings_set *set = settings_defaults(&milligpud_settings);
    const char *path = put((const char *)data, size);
    const size_t before = heap_bytes();
    struct err err;
    if (settings_read_file(set, path, &err) == 0) {
        heap_is_bounded(before, size);
        check(set);
        print_and_read(set);
        give_as_flags(set);
    } else {
        must(strncmp(err.text, path, strlen(path)) == 0);
    }
    settings_free(set);
    return 0;
}
