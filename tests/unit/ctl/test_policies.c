/* The output of check-policy for a document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/policies.h"
#include "support/shown.h"
#include "support/test.h"

static struct shown shown;

/* Runs check-policy on a file of this content. */
static int check(const char *content, const char *options)
{
    char path[] = "/tmp/milligpu-policy-XXXXXX";
    char words[128];
    const int file = mkstemp(path);

    assert_true(file >= 0);
    assert_int_equal(write(file, content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(close(file), 0);
    (void)snprintf(words, sizeof words, "check-policy %s %s", path, options);
    const int status = run_program(&shown, words);
    assert_int_equal(remove(path), 0);
    return status;
}

#define HEAD "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: spread\n"

TEST(policies__report_an_error_with_its_place)
{
    assert_int_equal(check(HEAD "rules: [{min: 0}]\n", ""), CTL_NO);
    assert_string_equal(shown.out, "");
    assert_int_equal(strncmp(shown.err, "milligpuctl: /tmp/milligpu-policy-", 34), 0);
    assert_non_null(strstr(shown.err, ":4:15: rules[0].min: 0 is below 1; write 1 to 1000\n"));
    shown_free(&shown);
}

TEST(policies__keep_the_status_after_a_warning)
{
    assert_int_equal(check(HEAD "rules: [{min: 5}, {min: 6}]\n", "-o json"), CTL_FINE);
    assert_non_null(strstr(shown.err, ":4:19: rules[1]: never applies: "));
    assert_non_null(strstr(shown.out, "rules[1]: never applies: "));
    assert_non_null(strstr(shown.out, "\"policy\": \"spread\""));
    shown_free(&shown);
}

static void shows(const char *content, const char *options, int status, const char *out,
                  const char *err)
{
    assert_int_equal(check(content, options), status);
    assert_non_null(strstr(shown.out, out));
    assert_non_null(strstr(shown.err, err));
    shown_free(&shown);
}

TEST(policies__show_windows_at_the_given_time)
{
    static const char document[] = HEAD "rules: [{when: 'Mon 08:00-20:00', whole: true}]\n";
    shows(document, "--at 2026-01-05T08:00:00Z", CTL_FINE,
          "Mon 08:00-20:00 UTC  until 2026-01-05T20:00:00.000Z  ", "");
    shows(document, "--at 2026-01-05T20:00:00Z", CTL_FINE,
          "Mon 08:00-20:00 UTC  from 2026-01-12T08:00:00.000Z  ", "");
    shows(document, "--at yesterday", CTL_USAGE, "", "--at is yesterday: ");
}

TEST(policies__describe_each_ready_policy)
{
    struct policy_ready ready;
    char words[64];
    for (size_t i = 0; policy_ready(i, &ready); i++) {
        (void)snprintf(words, sizeof words, "check-policy %s", ready.name);
        program_says(words, CTL_FINE, ready.name, NULL);
        program_says(words, CTL_FINE, "Prices:       known: ", NULL);
        (void)snprintf(words, sizeof words, "check-policy %s -o name", ready.name);
        program_says(words, CTL_FINE, "policy/", NULL);
    }
}
