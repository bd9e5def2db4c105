/* The score caches of filter and prioritize. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/webhook/score_caches.h"

#include "support/metric_sum.h"
#include "support/test.h"
#include "support_fixture.h"

/*
 * The pool
 */

struct pool {
    struct score_caches *score_caches;
};

static int pool_set_up(void **state)
{
    struct pool *pool = xcalloc(1, sizeof *pool);

    pool->score_caches = score_caches_new(SCORE_CACHES_MAX);
    *state = pool;
    return 0;
}

static int pool_tear_down(void **state)
{
    struct pool *pool = *state;

    score_caches_free(pool->score_caches);
    xfree(pool);
    return 0;
}

#define POOL_TEST(name) TEST_WITH(name, struct pool *pool, pool_set_up, pool_tear_down)

static struct score_cache *take(struct pool *pool)
{
    return score_caches_take(pool->score_caches);
}

POOL_TEST(score_caches__are_made_when_they_are_taken)
{
    assert_int_equal(score_caches_bytes(pool->score_caches), 0);
    score_caches_give(pool->score_caches, NULL);
    assert_int_equal(score_caches_bytes(pool->score_caches), 0);
    struct score_cache *cache = take(pool);
    score_caches_give(pool->score_caches, cache);
    assert_int_equal(score_caches_bytes(pool->score_caches), score_cache_counts(cache).bytes);
}

POOL_TEST(score_caches__lend_the_last_used_first)
{
    struct score_cache *first = take(pool);
    struct score_cache *second = take(pool);

    assert_ptr_not_equal(first, second);
    score_caches_give(pool->score_caches, second);
    score_caches_give(pool->score_caches, first);
    assert_ptr_equal(take(pool), first);
    assert_ptr_equal(take(pool), second);
    score_caches_give(pool->score_caches, first);
    score_caches_give(pool->score_caches, second);
    assert_ptr_equal(take(pool), second);
    score_caches_give(pool->score_caches, second);
}

POOL_TEST(score_caches__lend_none_beyond_the_limit)
{
    struct score_cache *cache[SCORE_CACHES_MAX];

    for (int i = 0; i < SCORE_CACHES_MAX; i++) {
        cache[i] = take(pool);
        assert_non_null(cache[i]);
    }
    assert_null(take(pool));
    score_caches_give(pool->score_caches, cache[2]);
    assert_ptr_equal(take(pool), cache[2]);
    for (int i = 0; i < SCORE_CACHES_MAX; i++)
        score_caches_give(pool->score_caches, cache[i]);
}

POOL_TEST(score_caches__are_freed_after_long_disuse)
{
    struct score_cache *busy = take(pool);
    struct score_cache *spare = take(pool);
    const size_t bytes = score_cache_counts(busy).bytes;

    score_caches_give(pool->score_caches, spare);
    score_caches_give(pool->score_caches, busy);
    for (int i = 0; i < SCORE_CACHES_UNUSED; i++) {
        assert_int_equal(score_caches_bytes(pool->score_caches), 2 * bytes);
        assert_ptr_equal(take(pool), busy);
        score_caches_give(pool->score_caches, busy);
    }
    assert_int_equal(score_caches_bytes(pool->score_caches), 2 * bytes);
    assert_ptr_equal(take(pool), busy);
    score_caches_give(pool->score_caches, busy);
    assert_int_equal(score_caches_bytes(pool->score_caches), bytes);
}

/*
 * The webhooks
 */

static const char *const five_nodes[] = {"n1", "1000", "n2", "2000", "n3", "1000",
                                         "n4", "3000", "n5", "4000", NULL};
static const char names[] = "n1 n2 n3 n4 n5";
enum { NODES = 5, PODS = 6, TURNS = 200 };

static struct app_fixture *daemon_of(const char *policy)
{
    struct app_fixture *fixture = fixture_new(five_nodes);

    fixture->settings.policy = policy;
    fixture_restart_and_run(fixture);
    assert_true(app_ready(&fixture->app, NULL));
    return fixture;
}

/* The metrics, since the last call. */
static struct score_cache_counts scored(void)
{
    static struct score_cache_counts before;
    const struct score_cache_counts now = {
        .found = (uint64_t)metric_sum(M_JUDGED_NODES, "outcome=\"found\""),
        .made = (uint64_t)metric_sum(M_JUDGED_NODES, "outcome=\"made\"")};
    const struct score_cache_counts since = {.found = now.found - before.found,
                                             .made = now.made - before.made};

    before = now;
    return since;
}

static void prioritize_body(struct app_fixture *fixture, const char *pod, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf object;

    strbuf_init(&object);
    fixture_object(fixture, pod, &object);
    strbuf_printf(out, "{\"Pod\":%s,\"Nodes\":null,\"NodeNames\":[", object.data);
    strbuf_str(out, "\"n1\",\"n2\",\"n3\",\"n4\",\"n5\"]}");
}

/* The text of the answer, for xfree(). May run in any thread. */
static char *prioritize(struct app_fixture *fixture, struct text body)
{
    struct http_call call;

    http_call_init(&call, "/scheduler/prioritize");
    call.body = body;
    call.began_ns = clock_ns();
    webhooks_handle(fixture->parts.webhooks, &call);
    must(call.status == 200);
    char *answer = xstrdup(call.answer.data);
    http_call_done(&call);
    return answer;
}

/* Asks for pod a, beside which pod b waits: every node is judged. */
static void ask_first(struct app_fixture *fixture)
{
    fixture_pod(fixture, "a", "300");
    fixture_show_pod(fixture, "b", "300");
    (void)scored();
    (void)fixture_filter(fixture, "a", names);
    const struct score_cache_counts counts = scored();
    assert_int_equal(counts.made, NODES);
    assert_int_equal(counts.found, 0);
}

TEST(scores__are_shared_by_filter_prioritize_and_the_next_pod)
{
    struct app_fixture *fixture = daemon_of("rollout");
    CLEANUP(strbuf_done) struct strbuf body;

    strbuf_init(&body);
    ask_first(fixture);
    prioritize_body(fixture, "a", &body);
    xfree(prioritize(fixture, (struct text){body.data, body.len}));
    struct score_cache_counts counts = scored();
    assert_int_equal(counts.made, 0);
    assert_int_equal(counts.found, NODES);
    (void)fixture_filter(fixture, "b", names);
    counts = scored();
    assert_int_equal(counts.made, 1); /* the node beside the offer to pod a */
    assert_int_equal(counts.found, NODES);
    /* One node is another one now. */
    assert_string_equal(fixture_bind(fixture, "b", "n4"), "");
    (void)fixture_filter(fixture, "a", names);
    counts = scored();
    assert_int_equal(counts.made, 1);
    assert_int_equal(counts.found, NODES - 1);
    assert_true(score_caches_bytes(fixture->app.score_caches) > 0);
    fixture_free(fixture);
}

TEST(scores__are_cached_under_every_policy)
{
    static const char *const policy[] = {"binpack", "spread", "rollout"};

    for (size_t i = 0; i < ARRAY_LEN(policy); i++) {
        struct app_fixture *fixture = daemon_of(policy[i]);
        ask_first(fixture);
        (void)fixture_filter(fixture, "b", names);
        const struct score_cache_counts counts = scored();
        assert_int_equal(counts.made, 1); /* the node beside the offer to pod a */
        assert_int_equal(counts.found, NODES);
        assert_true(score_caches_bytes(fixture->app.score_caches) > 0);
        fixture_free(fixture);
    }
}

/* The name that comes first in filter's answer. */
static void first_of(const char *answer, char out[8])
{
    const char *at = strstr(answer, "\"NodeNames\":[\"");

    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"NodeNames\":[\"%7[^\"]", out), 1);
}

TEST(prioritize__gives_ten_to_the_first_node_of_filter)
{
    static const char *const amount[] = {"300", "1000", "2000", "450"};
    static const char *const policy[] = {"binpack", "firstfit", "spread", "fgd", "rollout"};

    for (size_t p = 0; p < ARRAY_LEN(policy); p++) {
        struct app_fixture *fixture = daemon_of(policy[p]);
        fixture_bound_pod(fixture, "x", "700", "n2");
        fixture_bound_pod(fixture, "y", "400", "n5");
        for (size_t i = 0; i < ARRAY_LEN(amount); i++)
            fixture_pod(fixture, amount[i], amount[i]);
        fixture_run(fixture);
        for (size_t i = 0; i < ARRAY_LEN(amount); i++) {
            struct strbuf body;
            char best[8];
            char wanted[64];
            strbuf_init(&body);
            prioritize_body(fixture, amount[i], &body);
            char *scores = prioritize(fixture, (struct text){body.data, body.len});
            first_of(fixture_filter(fixture, amount[i], names), best);
            fixture_pass(fixture, 3000); /* its best place does not count as taken any more */
            (void)snprintf(wanted, sizeof wanted, "{\"Host\":\"%s\",\"Score\":10}", best);
            assert_says(scores, wanted);
            xfree(scores);
            strbuf_done(&body);
        }
        fixture_free(fixture);
    }
}

/*
 * Two threads
 */

struct asking {
    struct app_fixture *fixture;
    struct text body[PODS];
    char *wanted[PODS];
    uint32_t first;
    uint32_t wrong;
};

static void *ask_often(void *user)
{
    struct asking *asking = user;

    for (uint32_t i = 0; i < TURNS; i++) {
        const uint32_t at = (asking->first + i) % PODS;
        char *answer = prioritize(asking->fixture, asking->body[at]);
        asking->wrong += strcmp(answer, asking->wanted[at]) != 0;
        xfree(answer);
    }
    return NULL;
}

TEST(scores__are_the_same_in_concurrent_threads)
{
    static const char *const amount[PODS] = {"300", "1000", "2000", "450", "100", "1500"};
    struct app_fixture *fixture = daemon_of("rollout");
    struct asking asking[2] = {{.fixture = fixture}, {.fixture = fixture, .first = 3}};
    struct strbuf body[PODS];
    pthread_t thread[ARRAY_LEN(asking)];

    for (uint32_t i = 0; i < PODS; i++)
        fixture_pod(fixture, amount[i], amount[i]);
    fixture_run(fixture);
    for (uint32_t i = 0; i < PODS; i++) {
        strbuf_init(&body[i]);
        prioritize_body(fixture, amount[i], &body[i]);
        asking[0].body[i] = asking[1].body[i] = (struct text){body[i].data, body[i].len};
        asking[0].wanted[i] = prioritize(fixture, asking[0].body[i]);
        asking[1].wanted[i] = asking[0].wanted[i];
    }
    for (size_t t = 0; t < ARRAY_LEN(asking); t++)
        assert_int_equal(pthread_create(&thread[t], NULL, ask_often, &asking[t]), 0);
    for (size_t t = 0; t < ARRAY_LEN(asking); t++) {
        assert_int_equal(pthread_join(thread[t], NULL), 0);
        assert_int_equal(asking[t].wrong, 0);
    }
    for (uint32_t i = 0; i < PODS; i++) {
        strbuf_done(&body[i]);
        xfree(asking[0].wanted[i]);
    }
    fixture_free(fixture);
}
