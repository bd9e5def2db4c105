/* driver_release - causes of a release of the driver, and the state that outlives the agent. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/run/log.h"

#include "agent/gpu/driver_release.h"
#include "support/test.h"
#include "unit/agent/support.h"

static char folder[64];
static struct driver_release *release;

static int set_up(void **state __attribute__((unused)))
{
    log_set(LOG_ERROR, false);
    folder_make(folder, sizeof folder);
    release = driver_release_new(folder);
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    driver_release_free(release);
    folder_remove(folder);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

static void starts_again(void)
{
    driver_release_free(release);
    release = driver_release_new(folder);
}

static bool is_there(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/driver/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void label(const char *word)
{
    driver_release_label(release, text_of(word));
}

/* The request stays as it was made, or is withdrawn, without waiting for the agent. */
static void asked(bool is)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/driver", folder);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/driver/asked", folder);
    if (is)
        file_put(folder, "driver/asked", "");
    else
        assert_int_equal(unlink(path), 0);
}

static void turns(bool is_free, enum release_cause cause)
{
    assert_int_equal(driver_release_turn(release, is_free), cause);
}

FIXTURE_TEST(driver_label__releases_from_pod_deletion_to_driver_restart)
{
    static const char *const words[][8] = {
        {"", "upgrade-done", "upgrade-failed"}, /* no upgrade goes on */
        {"upgrade-required", "cordon-required", "wait-for-jobs-required", "validation-required",
         "uncordon-required"}, /* it goes on, with the driver */
        {"pod-deletion-required", "drain-required", "node-maintenance-required",
         "post-maintenance-required", "pod-restart-required"}, /* it wants the driver released */
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (size_t k = 0; words[i][k] != NULL; k++) {
            const struct text word = text_of(words[i][k]);
            assert_int_equal(driver_upgrade_releases(word, false), i == 2);
            assert_int_equal(driver_upgrade_releases(word, true), i == 2);
            assert_int_equal(driver_upgrade_goes_on(word), i > 0);
        }
    /* A word of a later operator changes nothing, and the next one may come soon. */
    assert_true(driver_upgrade_releases(TEXT("reboot-required"), true));
    assert_false(driver_upgrade_releases(TEXT("reboot-required"), false));
    assert_true(driver_upgrade_goes_on(TEXT("reboot-required")));
}

FIXTURE_TEST(driver_release__prefers_a_request_to_the_label)
{
    turns(false, RELEASE_NOT);
    label("drain-required");
    assert_int_equal(driver_release_cause(release), RELEASE_NOT); /* not before the next turn */
    turns(false, RELEASE_UPGRADE);
    assert_int_equal(driver_release_cause(release), RELEASE_UPGRADE);
    asked(true);
    turns(false, RELEASE_ORDERED);
    label("upgrade-done");
    turns(false, RELEASE_ORDERED);
    asked(false);
    turns(false, RELEASE_NOT);
    assert_int_equal(driver_release_cause(NULL), RELEASE_NOT);
}

/* It is written down once nothing has the driver open, and until it is taken again. */
FIXTURE_TEST(driver_release__marks_the_driver_released_until_it_is_taken)
{
    turns(true, RELEASE_NOT);
    assert_false(is_there("released"));
    label("drain-required");
    (void)driver_release_turn(release, false);
    assert_false(is_there("released"));
    (void)driver_release_turn(release, true);
    assert_true(is_there("released"));
    (void)driver_release_turn(release, false);
    assert_true(is_there("released"));
    label("");
    (void)driver_release_turn(release, true);
    assert_false(is_there("released"));
}

FIXTURE_TEST(driver_release__survives_a_restart_of_the_agent)
{
    label("pod-restart-required");
    (void)driver_release_turn(release, true);
    starts_again();
    assert_int_equal(driver_release_cause(release), RELEASE_UPGRADE);
    turns(false, RELEASE_UPGRADE);
    label("upgrade-done");
    turns(false, RELEASE_NOT);
    assert_false(is_there("released"));
    starts_again();
    assert_int_equal(driver_release_cause(release), RELEASE_NOT);
    /* A request lasts until it is withdrawn. */
    asked(true);
    (void)driver_release_turn(release, true);
    starts_again();
    assert_int_equal(driver_release_cause(release), RELEASE_ORDERED);
    asked(false);
    turns(true, RELEASE_NOT);
}

FIXTURE_TEST(driver_release__times_out_without_an_agent)
{
    struct err err;
    char words[200];
    assert_int_equal(driver_release_ask(folder, true, 60, &err), -ERR_TIMEOUT);
    (void)snprintf(words, sizeof words, "no agent with the state folder %s let go of the driver",
                   folder);
    assert_non_null(strstr(err.text, words));
    assert_false(is_there("asked")); /* withdrawn: no agent lets go of it later, unasked */
    assert_int_equal(driver_release_ask(folder, false, 60, &err), 0); /* no agent has released it */
    label("drain-required");
    (void)driver_release_turn(release, true);
    assert_int_equal(driver_release_ask(folder, true, 60, &err), 0);
    assert_true(is_there("asked"));
    assert_int_equal(driver_release_ask(folder, false, 60, &err), -ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "takes the driver again"));
    assert_false(is_there("asked"));
    assert_int_equal(driver_release_ask("/proc/nowhere", true, 60, &err), -ERR_IO);
    static char long_path[600];
    memset(long_path, 'x', sizeof long_path - 1);
    assert_int_equal(driver_release_ask(long_path, true, 60, &err), -ERR_INVALID);
    assert_int_equal(driver_release_ask(long_path, false, 60, &err), -ERR_INVALID);
}

/* A full disk is no reason to keep the driver, nor to say that it was let go of. */
FIXTURE_TEST(driver_release__retries_a_mark_that_cannot_be_written)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/driver", folder);
    file_put(folder, "driver", ""); /* in the way of the folder */
    label("drain-required");
    turns(true, RELEASE_UPGRADE);
    assert_int_equal(unlink(path), 0);
    turns(false, RELEASE_UPGRADE);
    assert_false(is_there("released"));
    turns(true, RELEASE_UPGRADE);
    assert_true(is_there("released"));
}

FIXTURE_TEST(driver_release__has_a_word_and_a_sentence_for_each_cause)
{
    assert_null(release_cause_word(RELEASE_NOT));
    assert_null(release_cause_sentence(RELEASE_NOT));
    assert_string_equal(release_cause_word(RELEASE_ORDERED), "told");
    assert_string_equal(release_cause_word(RELEASE_UPGRADE), "driver-upgrade");
    assert_non_null(strstr(release_cause_sentence(RELEASE_ORDERED), "--release-driver"));
    assert_non_null(strstr(release_cause_sentence(RELEASE_UPGRADE), DRIVER_UPGRADE_LABEL));
}
