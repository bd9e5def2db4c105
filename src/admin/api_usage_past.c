/*
 * The handler of usage since a time: what each namespace was granted of each model, from the
 * history. Called by the router in an admin thread. The rows are as many as namespaces have models.
 */
#include "milligpu/alloc.h"

#include "admin/api_internal.h"

enum { SECONDS_PER_HOUR = 3600 };

struct past_usage {
    struct api_call *call;
    struct model_filter models;
    const char *namespace;
    struct api_list list;
    struct store_granted total; /* without names, and pods of several models count in each */
    int64_t since_ms;
    int64_t now_ms;
};

static void add_granted(void *user, const struct store_granted *row)
{
    struct past_usage *past = user;
    struct arena *arena = &past->call->arena;
    struct store_granted *kept;

    if (!api_is_wanted(past->namespace, row->namespace) ||
        (past->models.given && !request_takes_model(&past->models.models, text_of(row->model))))
        return;
    kept = arena_alloc(arena, sizeof *kept);
    *kept = *row;
    kept->namespace = arena_copy(arena, text_of(row->namespace));
    kept->model = arena_copy(arena, text_of(row->model));
    past->total.milli_s += row->milli_s;
    past->total.mib_s += row->mib_s;
    api_list_add(past->call, &past->list,
                 arena_printf(arena, "%s\n%s", kept->namespace, kept->model), kept, NULL);
}

static void put_hours(struct json_writer *json, const struct store_granted *row)
{
    json_write_key(json, "grantedMilliHours");
    json_write_u64(json, row->milli_s / SECONDS_PER_HOUR);
    json_write_key(json, "grantedMibHours");
    json_write_u64(json, row->mib_s / SECONDS_PER_HOUR);
}

static void encode_granted(struct json_writer *json, const struct api_item *item)
{
    const struct store_granted *row = item->what;

    must(row->pods > 0);
    json_write_object(json);
    json_write_key(json, "namespace");
    json_write_str(json, row->namespace);
    json_write_key(json, "model");
    json_write_str(json, row->model);
    json_write_key(json, "pods");
    json_write_u64(json, row->pods);
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

/* Of all pages. */
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

void api_usage_past(struct api_call *call)
{
    const struct clock_ops *clock = &call->app->clock;
    struct past_usage past = {.call = call,
                              .namespace = call->value[PARAMETER_namespace],
                              .now_ms = clock->wall_ms(clock->ctx)};
    struct err err;

    if (!api_model_filter(call, &past.models))
        return;
    if (call->value[PARAMETER_since] != NULL) /* the schema was checked */
        must(api_time_read(call->value[PARAMETER_since], &past.since_ms));
    if (past.since_ms < 0)
        past.since_ms = 0;
    if (past.since_ms > past.now_ms)
        past.since_ms = past.now_ms;
    past.list = (struct api_list){.about = encode_past_total, .user = &past};
    if (store_granted(call->app->store, past.since_ms, past.now_ms, &past, add_granted, &err) < 0) {
        xfree(past.list.item);
        api_fail_err(call, &err);
        return;
    }
    api_list_write(call, &past.list, encode_granted);
}
