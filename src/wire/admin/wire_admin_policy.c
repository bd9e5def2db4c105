/*
 * Encodes the policy in force as JSON. Called by the handler of its route, on an admin thread; a
 * policy context is immutable.
 */
#include "milligpu/wire/admin/wire_admin.h"
#include "milligpu/wire/kube/wire_kube.h"

static void policy_put_u64(struct json_writer *json, const char *key, uint64_t value)
{
    must(key[0] != '\0');
    json_write_key(json, key);
    json_write_u64(json, value);
}

/* Writes nothing for a time that never comes. */
static void policy_put_time(struct json_writer *json, const char *key, int64_t at_ms)
{
    char time[TIME_TEXT_BYTES];

    must(key[0] != '\0');
    if (at_ms == INT64_MAX)
        return;
    time_format(at_ms, time);
    json_write_member(json, key, time);
}

static void put_words(struct json_writer *json, const char *key, const struct rule *rule,
                      void (*add)(struct strbuf *out, const struct rule *rule))
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    add(&text, rule);
    must(text.len > 0);
    json_write_member(json, key, text.data);
}

static void put_window(struct json_writer *json, const struct rule *rule, int64_t now_ms)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    if (rule->window == NULL)
        return;
    window_format(rule->window, &text);
    json_write_member(json, "when", text.data);
    policy_put_time(json, "changesAt", window_next_ms(rule->window, rule->zone, now_ms));
}

static void put_rule(struct json_writer *json, const struct policy_context *context, uint32_t at,
                     int64_t now_ms)
{
    const struct rule *rule = &context->rulebook->rule[at];

    must(at < context->rulebook->n_rules);
    json_write_object(json);
    policy_put_u64(json, "number", at + 1);
    json_write_member(json, "name", rule->name);
    put_words(json, "nodes", rule, rule_add_nodes);
    put_words(json, "namespaces", rule, rule_add_namespaces);
    put_words(json, "says", rule, rule_add_demands);
    put_window(json, rule, now_ms);
    json_write_key(json, "holds");
    json_write_bool(json, (context->holding & one_rule(at)) != 0);
    if (rule->reserve > 0) {
        policy_put_u64(json, "reserve", rule->reserve);
        policy_put_u64(json, "idle", context->idle[at]);
    }
    json_write_object_end(json);
}

static void put_failure(struct json_writer *json, const struct admin_policy *policy)
{
    if (policy->failed == NULL)
        return;
    json_write_key(json, "failed");
    json_write_object(json);
    policy_put_time(json, "since", policy->failed_ms);
    json_write_member(json, "text", policy->failed);
    json_write_object_end(json);
}

void admin_policy(struct json_writer *json, const struct admin_policy *policy)
{
    const struct rulebook *book = policy->context->rulebook;

    must(book != NULL);
    json_write_object(json);
    json_write_member(json, "name", book->name);
    json_write_member(json, "digest", book->digest);
    json_write_member(json, "policy", policy_name(book->policy));
    policy_put_u64(json, "seed", book->seed);
    json_write_member(json, "memory", book->raise ? "raise" : "filter");
    json_write_member(json, "prices", book->prices_by == PRICES_OFF ? "off" : "known");
    json_write_key(json, "rules");
    json_write_array(json);
    for (uint32_t i = 0; i < book->n_rules; i++)
        put_rule(json, policy->context, i, policy->now_ms);
    json_write_array_end(json);
    policy_put_time(json, "changesAt", rulebook_next_ms(book, policy->now_ms));
    put_failure(json, policy);
    json_write_object_end(json);
}
