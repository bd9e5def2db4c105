#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/document/policy/zone_file.h"

#include "support/test.h"

static char folder[] = "/tmp/milligpu-zones-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void refused(const char *name, enum err_code code, const char *why)
{
    struct zone *zone = NULL;
    struct err err;
    if (zone_load(name, &zone, &err) == 0)
        fail_msg("not refused: %s", name);
    assert_null(zone);
    assert_string_equal(err.text, why);
    assert_int_equal(err.code, code);
}

TEST(zone__is_loaded_by_its_installed_name)
{
    struct zone *zone = NULL;
    struct err err;
    if (zone_load("Asia/Kolkata", &zone, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(zone_name(zone), "Asia/Kolkata");
    assert_int_equal(zone_offset_s(zone, 1780000000), 19800);
    zone_free(zone);
}

TEST(zone__ignores_tzdir)
{
    (void)setenv("TZDIR", folder, 1); /* NOLINT(concurrency-mt-unsafe) */
    zone__is_loaded_by_its_installed_name(state);
    (void)unsetenv("TZDIR"); /* NOLINT(concurrency-mt-unsafe) */
}

TEST(utc__needs_no_tzdata)
{
    struct zone *zone = NULL;
    struct err err;
    assert_int_equal(zone_load_from("/nowhere", "UTC", &zone, &err), 0);
    assert_string_equal(zone_name(zone), "UTC");
    zone_free(zone);
}

TEST(zone__refuses_paths_and_unknown_names)
{
    refused("../../../etc/passwd", ERR_INVALID,
            "\"../../../etc/passwd\" is not a time zone: write a name like Europe/Berlin, or UTC");
    refused("/etc/localtime", ERR_INVALID,
            "\"/etc/localtime\" is not a time zone: write a name like Europe/Berlin, or UTC");
    refused("", ERR_INVALID, "\"\" is not a time zone: write a name like Europe/Berlin, or UTC");
    refused("Europe/Bonn", ERR_NOT_FOUND,
            "unknown time zone \"Europe/Bonn\": write it as tzdata does, such as Europe/Berlin");
    refused("Europe", ERR_NOT_FOUND,
            "unknown time zone \"Europe\": write it as tzdata does, such as Europe/Berlin");
    refused("Europe/Berlin/Mitte", ERR_NOT_FOUND,
            "unknown time zone \"Europe/Berlin/Mitte\": write it as tzdata does, such as "
            "Europe/Berlin");
}

TEST(zone__suggests_to_install_tzdata)
{
    struct zone *zone = NULL;
    struct err err;
    assert_int_equal(zone_load_from("/nowhere", "Europe/Berlin", &zone, &err), -ERR_NOT_FOUND);
    assert_string_equal(err.text, "unknown time zone \"Europe/Berlin\": no /nowhere; is tzdata "
                                  "installed?");
}

static void write_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++)
        (void)fputc('x', file);
    assert_int_equal(fclose(file), 0);
}

TEST(zone__refuses_a_broken_file_with_its_name)
{
    struct zone *zone = NULL;
    struct err err;
    char path[64];
    (void)snprintf(path, sizeof path, "%s/Broken", folder);
    write_file(path, 100);
    assert_int_equal(zone_load_from(folder, "Broken", &zone, &err), -ERR_INVALID);
    assert_string_equal(err.text, "time zone Broken: not a time zone file (TZif)");
    write_file(path, ZONE_BYTES_MAX + 1);
    assert_int_equal(zone_load_from(folder, "Broken", &zone, &err), -ERR_TOO_LARGE);
    assert_int_equal(strncmp(err.text, "time zone Broken: ", 18), 0);
    assert_non_null(strstr(err.text, "more than 65536 bytes"));
    assert_int_equal(unlink(path), 0);
    /* A FIFO without a writer would block the reader for ever. */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(zone_load_from(folder, "Broken", &zone, &err), -ERR_NOT_FOUND);
    assert_int_equal(unlink(path), 0);
}

TEST_GROUP(make_folder, remove_folder)
