/* When containers held more memory than their shares, as the journal has it. */
#include <string.h>

#include "store/store_internal.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const int64_t hour = INT64_C(60) * 60 * 1000;

/* One entry: hours after the beginning. */
static void entry(struct shelf *shelf, const struct command *about, double hours)
{
    struct command command = *about;
    struct change change;
    struct err err;

    command.at_ms = (int64_t)(hours * (double)hour);
    assert_int_equal(ledger_decide(shelf->core.ledger, &command, &change), VERDICT_OK);
    shelf_begin(shelf);
    assert_int_equal(shelf->ops.write(shelf->ops.ctx, &command, &change, &err), STORE_OK);
    shelf_commit(shelf);
    change_done(&change);
}

static struct command over(const char *uid, const char *name, const char *how, uint32_t peak_mib)
{
    return (struct command){.kind = COMMAND_OVER,
                            .uid = uid,
                            .namespace = "default",
                            .name = name,
                            .node = "n1",
                            .container = "main",
                            .gpu = "GPU-a",
                            .why = how,
                            .mib = 4915,
                            .peak_mib = peak_mib};
}

static void add_over(void *user, const struct history_over_event *over)
{
    strbuf_printf(user, "%s %s %s %s %u/%u at %g;", over->uid, over->container, over->gpu,
                  over->how, over->peak_mib, over->mib, (double)over->at_ms / (double)hour);
}

static void says(const struct shelf *shelf, const char *pod, const char *wanted)
{
    const struct store_over_events_query query = {.namespace = "default", .pod = pod};
    struct strbuf text;
    struct err err;

    strbuf_init(&text);
    if (store_over_events(shelf->store, &query, &text, add_over, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(text.data, wanted);
    strbuf_done(&text);
}

SHELF_TEST(over_events__come_newest_first_for_pods_of_the_name)
{
    const struct command seen = over("u1", "web", "seen", 6000);
    const struct command killed = over("u1", "web", "killed", 0);
    const struct command again = over("u2", "web", "seen", 5000);
    struct command other = over("u3", "web-2", "seen", 7000);
    other.mib = 0; /* of a GPU whose memory is not known */
    struct command elsewhere = over("u4", "web", "seen", 8000);
    elsewhere.namespace = "other";
    const struct command clock = {.kind = COMMAND_CLOCK, .clock_from_ms = 1};

    says(shelf, "web", "");
    entry(shelf, &seen, 10);
    entry(shelf, &clock, 10);
    entry(shelf, &other, 10.5);
    entry(shelf, &elsewhere, 10.5);
    entry(shelf, &killed, 11);
    entry(shelf, &again, 12);
    says(shelf, "web",
         "u2 main GPU-a seen 5000/4915 at 12;u1 main GPU-a killed 0/4915 at 11;"
         "u1 main GPU-a seen 6000/4915 at 10;");
    says(shelf, "web-2", "u3 main GPU-a seen 7000/0 at 10.5;");
    says(shelf, "we", "");
}

SHELF_TEST(over_events__leave_out_no_json_and_refuse_impossible_entries)
{
    const struct command seen = over("u1", "web", "seen", 6000);
    const struct store_over_events_query query = {.namespace = "default", .pod = "web"};
    struct strbuf text;
    struct err err;

    strbuf_init(&text);
    entry(shelf, &seen, 10);
    entry(shelf, &seen, 11);
    shelf_spoil(shelf, "UPDATE journal SET command = '{\"kind\":\"over\"' WHERE seq = 2");
    says(shelf, "web", "u1 main GPU-a seen 6000/4915 at 10;");
    shelf_spoil(shelf, "UPDATE journal SET command = json_set(command, '$.mib', -1) WHERE seq = 1");
    assert_int_equal(store_over_events(shelf->store, &query, &text, add_over, &err),
                     -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "table journal: column "));
    strbuf_done(&text);
}
