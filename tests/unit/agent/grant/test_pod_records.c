/* pod_records - a uid has one allocation for its life, also across restarts. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"

#include "agent/grant/pod_records.h"
#include "support/test.h"
#include "unit/agent/support.h"

static struct err err; /* of the latest call */

struct place {
    char home[32];
    char dir[64];
    struct pod_records *records;
};

static void opened(struct place *place)
{
    pod_records_close(place->records);
    place->records = NULL;
    if (pod_records_open(place->dir, &place->records, &err) < 0)
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    struct place *place = test_calloc(1, sizeof *place);
    log_set(LOG_ERROR, false);
    folder_make(place->home, sizeof place->home);
    (void)snprintf(place->dir, sizeof place->dir, "%s/state", place->home);
    opened(place);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    pod_records_close(place->records);
    folder_remove(place->home);
    test_free(place);
    return 0;
}

#define PLACE_TEST(name) TEST_WITH(name, struct place *place, set_up, tear_down)

static void holds(const struct place *place, const char *uid, const char *annotation)
{
    struct text found;
    const bool has = pod_records_find(place->records, text_of(uid), &found);
    assert_int_equal(has, annotation != NULL);
    if (has)
        assert_true(text_is(found, annotation));
}

static void write_file(const struct place *place, const char *name, const char *text)
{
    char path[160];
    (void)snprintf(path, sizeof path, "state/pods/%s", name);
    file_put(place->home, path, text);
}

static bool has_file(const struct place *place, const char *name)
{
    char path[160];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/pods/%s", place->dir, name);
    return lstat(path, &st) == 0;
}

PLACE_TEST(pod_records__outlive_the_agent)
{
    holds(place, "uid-1", NULL);
    pod_records_add(place->records, TEXT("uid-1"), TEXT("{\"v\":1}\n\nmore"));
    pod_records_add(place->records, TEXT("uid-2"), TEXT(""));
    holds(place, "uid-1", "{\"v\":1}\n\nmore");
    opened(place);
    holds(place, "uid-1", "{\"v\":1}\n\nmore");
    holds(place, "uid-2", "");
    assert_int_equal(pod_records_count(place->records), 2);
}

PLACE_TEST(pod_records__are_new_until_the_first_complete_list)
{
    assert_true(pod_records_are_new(place->records));
    opened(place); /* it ended before it had seen everything */
    assert_true(pod_records_are_new(place->records));
    assert_int_equal(pod_records_born(place->records, &err), 0);
    assert_false(pod_records_are_new(place->records));
    opened(place);
    assert_false(pod_records_are_new(place->records));
}

PLACE_TEST(pod_records__drop_torn_and_unknown_files)
{
    static const char *const torn[] = {"",
                                       "milligpu-node 2 5",
                                       "milligpu-node 2 5 10\nshort",
                                       "milligpu-node 2 5 2\nlonger",
                                       "milligpu-node 3 5 1\nx",
                                       "milligpu-node 2 x 1\nx",
                                       "milligpu-node 2 99999999999999999999 1\nx",
                                       "another program's file"};
    char name[16];

    for (size_t i = 0; i < ARRAY_LEN(torn); i++) {
        (void)snprintf(name, sizeof name, "uid-%zu", i);
        write_file(place, name, torn[i]);
    }
    write_file(place, ".new", "left by a crash");
    write_file(place, "uid-good", "milligpu-node 2 7 2\n{}");
    opened(place);
    assert_int_equal(pod_records_count(place->records), 1);
    holds(place, "uid-good", "{}");
    for (size_t i = 0; i < ARRAY_LEN(torn); i++) {
        (void)snprintf(name, sizeof name, "uid-%zu", i);
        assert_false(has_file(place, name));
    }
}

PLACE_TEST(pod_records__drop_those_of_an_unsigned_version)
{
    write_file(place, "uid-old", "milligpu-node 1 7 2\n{}");
    write_file(place, "uid-torn", "milligpu-node 1 7 3\n{}");
    write_file(place, "uid-good", "milligpu-node 2 7 2\n{}");
    opened(place);
    holds(place, "uid-old", NULL);
    holds(place, "uid-torn", NULL);
    holds(place, "uid-good", "{}");
    assert_false(has_file(place, "uid-old") || has_file(place, "uid-torn"));
    pod_records_add(place->records, TEXT("uid-old"), TEXT("{\"v\":1}"));
    opened(place);
    holds(place, "uid-old", "{\"v\":1}");
}

PLACE_TEST(pod_records__keep_a_file_that_fails_to_read)
{
    char path[128];
    char aside[128];

    write_file(place, "uid-good", "milligpu-node 2 7 2\n{}");
    (void)snprintf(path, sizeof path, "%s/pods/uid-good", place->dir);
    (void)snprintf(aside, sizeof aside, "%s/aside", place->dir);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink("uid-good", path), 0); /* ELOOP, also for root */
    for (int i = 0; i < 2; i++) {
        opened(place);
        assert_int_equal(pod_records_count(place->records), 0);
        assert_true(has_file(place, "uid-good"));
    }
    assert_int_equal(rename(aside, path), 0);
    opened(place);
    holds(place, "uid-good", "{}");
}

PLACE_TEST(pod_records__evict_the_oldest_pod_that_does_not_run)
{
    char uid[32];

    for (int i = 0; i < RECORDS_MAX; i++) {
        (void)snprintf(uid, sizeof uid, "uid-%d", i);
        pod_records_add(place->records, text_of(uid), TEXT("{}"));
    }
    opened(place); /* the order is on disk */
    pod_records_none_run(place->records);
    pod_records_runs(place->records, TEXT("uid-0"));
    pod_records_runs(place->records, TEXT("unknown"));
    pod_records_add(place->records, TEXT("fresh"), TEXT("{}"));
    assert_int_equal(pod_records_count(place->records), RECORDS_MAX);
    holds(place, "uid-0", "{}");
    holds(place, "uid-1", NULL);
    holds(place, "uid-2", "{}");
    opened(place);
    holds(place, "uid-1", NULL);
    holds(place, "fresh", "{}");
}

PLACE_TEST(pod_records__never_evict_a_running_pod)
{
    char uid[32];

    for (int i = 0; i < RECORDS_MAX + 3; i++) {
        (void)snprintf(uid, sizeof uid, "uid-%d", i);
        pod_records_add(place->records, text_of(uid), TEXT("{}")); /* runs from then on */
    }
    assert_int_equal(pod_records_count(place->records), RECORDS_MAX + 3);
    holds(place, "uid-0", "{}");
}

PLACE_TEST(pod_records__keep_and_retry_a_failed_write)
{
    char path[160];

    (void)snprintf(path, sizeof path, "%s/pods/.new", place->dir);
    assert_int_equal(mkdir(path, 0700), 0); /* no file can be made under this name */
    pod_records_add(place->records, TEXT("uid-1"), TEXT("{}"));
    holds(place, "uid-1", "{}");
    assert_int_equal(pod_records_flush(place->records), 1);
    assert_true(pod_records_born(place->records, &err) < 0);
    assert_true(pod_records_are_new(place->records));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(pod_records_flush(place->records), 0);
    opened(place);
    holds(place, "uid-1", "{}");
}

PLACE_TEST(pod_records__name_a_folder_that_cannot_be_made)
{
    struct pod_records *records = NULL;
    assert_true(pod_records_open("/proc/nowhere", &records, &err) < 0);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_null(records);
}

PLACE_TEST(pod_records__take_uids_of_letters_digits_and_dashes)
{
    char longest[130];
    memset(longest, 'a', sizeof longest);
    assert_true(pod_records_takes(TEXT("3f6C1a2e-0000")));
    assert_true(pod_records_takes((struct text){longest, 128}));
    assert_false(pod_records_takes((struct text){longest, 129}));
    assert_false(pod_records_takes(TEXT("")));
    assert_false(pod_records_takes(TEXT(".new")));
    assert_false(pod_records_takes(TEXT("a/b")));
    assert_false(pod_records_takes(TEXT("a\0b")));
}
