/*
 * The handler of usage since a time: granted amounts by namespace and model, from the history, and
 * the amounts that agents measured. Called by the router in an admin thread. There is one row for
 * each pair of namespace and model. In order: adding up, JSON, the handler.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

#include "admin/api_internal.h"

enum { SECONDS_PER_HOUR = 3600 };

/* A row of granted and measured amounts; the names are in granted. */
struct past_row {
    struct store_granted granted;
    struct store_measured measured;
};

struct past_usage {
    struct api_call *call;
    struct model_filter models;
    const char *namespace;
    struct api_list list;
    struct map rows;       /* struct past_row, by namespace and model */
    struct past_row total; /* without names; without pods, which count once for each model */
    int64_t since_ms;
    int64_t now_ms;
};

/* --- adding up --- */

/* The row of this pair, made if absent; NULL if the filters exclude it. */
static struct past_row *past_row(struct past_usage *past, const char *namespace, const char *model)
{
    struct arena *arena = &past->call->arena;

    if (!api_is_wanted(past->namespace, namespace) ||
        (past->models.given && !request_takes_model(&past->models.models, text_of(model))))
        return NULL;
    const char *key = arena_printf(arena, "%s\n%s", namespace, model);
    struct past_row *row = map_find(&past->rows, text_of(key));
    if (row != NULL)
        return row;
    row = arena_alloc(arena, sizeof *row);
    *row = (struct past_row){.granted = {.namespace = arena_copy(arena, text_of(namespace)),
                                         .model = arena_copy(arena, text_of(model))}};
    must(map_put(&past->rows, text_of(key), row) == NULL);
    api_list_add(past->call, &past->list, key, row, NULL);
    return row;
}

static void add_granted(void *user, const struct store_granted *granted_row)
{
    struct past_usage *past = user;
    struct past_row *row = past_row(past, granted_row->namespace, granted_row->model);

    if (row == NULL)
        return;
    row->granted.pods = granted_row->pods;
    row->granted.milli_s = granted_row->milli_s;
    row->granted.mib_s = granted_row->mib_s;
    past->total.granted.milli_s += granted_row->milli_s;
    past->total.granted.mib_s += granted_row->mib_s;
}

static void add_measured(struct store_measured *sum, const struct store_measured *row)
{
    sum->milli_s += row->milli_s;
    sum->of_milli_s += row->of_milli_s;
    sum->mib_s += row->mib_s;
    sum->of_mib_s += row->of_mib_s;
}

/* Amounts without a namespace (the hour had no row left) count only in the total. */
static void take_measured(void *user, const struct store_measured *measured_row)
{
    struct past_usage *past = user;
    const bool nobodys = measured_row->namespace[0] == '\0';
    struct past_row *row =
        nobodys ? NULL : past_row(past, measured_row->namespace, measured_row->model);

    if (row != NULL)
        add_measured(&row->measured, measured_row);
    if (row != NULL || (nobodys && past->namespace == NULL && !past->models.given))
        add_measured(&past->total.measured, measured_row);
}

/* --- JSON --- */

static void put_hours_of(struct json_writer *json, const char *key, uint64_t seconds)
{
    json_write_key(json, key);
    json_write_u64(json, seconds / SECONDS_PER_HOUR);
}

/* Leaves out the members of measured amounts if nothing was measured. */
static void put_hours(struct json_writer *json, const struct past_row *row)
{
    const struct store_measured *measured = &row->measured;

    put_hours_of(json, "grantedMilliHours", row->granted.milli_s);
    put_hours_of(json, "grantedMibHours", row->granted.mib_s);
    if (measured->of_milli_s > 0) {
        put_hours_of(json, "measuredMilliHours", measured->milli_s);
        put_hours_of(json, "measuredOfMilliHours", measured->of_milli_s);
    }
    if (measured->of_mib_s > 0) {
        put_hours_of(json, "measuredMibHours", measured->mib_s);
        put_hours_of(json, "measuredOfMibHours", measured->of_mib_s);
    }
}

static void encode_past_row(struct json_writer *json, const struct api_item *item)
{
    const struct past_row *row = item->what;

    must(row->granted.namespace[0] != '\0');
    json_write_object(json);
    json_write_key(json, "namespace");
    json_write_str(json, row->granted.namespace);
    json_write_key(json, "model");
    json_write_str(json, row->granted.model);
    json_write_key(json, "pods");
    json_write_u64(json, row->granted.pods);
    put_hours(json, row);
    json_write_object_end(json);
}

static void put_past_time(struct json_writer *json, const char *key, int64_t ms)
{
    char text[TIME_TEXT_BYTES];

    time_format(ms, text);
    json_write_key(json, key);
    json_write_str(json, text);
}

/* Writes the total of all pages. */
static void encode_past_total(struct json_writer *json, const void *user)
{
    const struct past_usage *past = user;

    must(past->since_ms <= past->now_ms);
    put_past_time(json, "since", past->since_ms);
    put_past_time(json, "until", past->now_ms);
    json_write_key(json, "total");
    json_write_object(json);
    put_hours(json, &past->total);
    json_write_object_end(json);
}

/* --- the handler --- */

static int read_past(struct past_usage *past, struct err *err)
{
    struct store *store = past->call->app->store;

    map_init(&past->rows);
    int failed = store_granted(store, past->since_ms, past->now_ms, past, add_granted, err);
    if (failed == 0)
        failed = store_measured(store, past->since_ms, past->now_ms, past, take_measured, err);
    map_done(&past->rows);
    return failed;
}

void api_usage_past(struct api_call *call)
{
    const struct clock_ops *clock = &call->app->clock;
    struct past_usage past = {.call = call,
                              .namespace = call->value[PARAMETER_namespace],
                              .now_ms = clock->wall_ms(clock->ctx)};
    struct err err;

    if (!api_model_filter(call, &past.models))
        return;
    if (call->value[PARAMETER_since] != NULL) /* the schema has been checked */
        must(api_time_read(call->value[PARAMETER_since], &past.since_ms));
    if (past.since_ms < 0)
        past.since_ms = 0;
    if (past.since_ms > past.now_ms)
        past.since_ms = past.now_ms;
    past.list = (struct api_list){.about = encode_past_total, .user = &past};
    if (read_past(&past, &err) < 0) {
        xfree(past.list.item);
        api_fail_err(call, &err);
        return;
    }
    api_list_write(call, &past.list, encode_past_row);
}
