#include "support.h"

static const char *const versions[] = {"1.34", "1.36"};

/* The body of a recorded request: everything after the empty line. */
static struct text body_of(struct fixture *fixture, const char *version, const char *file)
{
    const char *path = arena_printf(&fixture->arena, "tests/golden/%s/%s", version, file);
    const struct text request = read_file(fixture, path);
    const char *head_end = strstr(request.at, "\r\n\r\n");
    assert_non_null(head_end);
    const size_t head = (size_t)(head_end + 4 - request.at);
    return exact(fixture, (struct text){request.at + head, request.len - head});
}

static struct extender_args args_of(struct fixture *fixture, const char *version, const char *file)
{
    struct extender_args args;
    if (extender_args_decode(body_of(fixture, version, file), &rules, NULL, &fixture->arena, &args,
                             &fixture->err) != 0)
        fail_msg("%s/%s: %s", version, file, fixture->err.text);
    return args;
}

WIRE_TEST(recorded_filter__is_read)
{
    static const struct {
        const char *file;
        const char *pod;
        const char *amount;
    } cases[] = {{"filter.req.http", "ok-0", "300"},
                 {"prioritize.req.http", "ok-0", "300"},
                 {"filter-1500.req.http", "big-0", "1500"}};
    for (size_t v = 0; v < ARRAY_LEN(versions); v++)
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            const struct extender_args args = args_of(fixture, versions[v], cases[i].file);
            assert_string_equal(args.pod.name, cases[i].pod);
            assert_string_equal(args.pod.namespace, "default");
            assert_int_equal(strlen(args.pod.uid), 36);
            assert_null(args.pod.unreadable);
            assert_int_equal(args.pod.phase, POD_PENDING);
            assert_true(args.pod.created_ms > INT64_C(1795000000000));
            assert_true(args.pod.ours);
            assert_int_equal(args.pod.n_containers, 1);
            assert_string_equal(args.pod.container[0].amount, cases[i].amount);
            assert_false(args.full_nodes);
            assert_int_equal(args.n_names, 3);
            for (uint32_t n = 0; n < 3; n++) /* their order rotates from call to call */
                assert_true(text_starts(args.name[n], "node") && args.name[n].len == 5);
        }
}

WIRE_TEST(recorded_bind__is_read)
{
    for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
        struct extender_bind bind;
        assert_int_equal(extender_bind_decode(body_of(fixture, versions[v], "bind.req.http"),
                                              &fixture->arena, &bind, &fixture->err),
                         0);
        assert_string_equal(bind.pod, "ok-0");
        assert_string_equal(bind.namespace, "default");
        assert_int_equal(strlen(bind.uid), 36);
        assert_true(text_starts(text_of(bind.node), "node"));
        assert_string_equal(bind.uid, args_of(fixture, versions[v], "filter.req.http").pod.uid);
    }
}

WIRE_TEST(recorded_preemption__is_read_and_returned_byte_for_byte)
{
    struct extender_preempt args;
    const struct text body = body_of(fixture, "1.34", "preempt.req.http");
    assert_int_equal(extender_preempt_decode(body, &rules, &fixture->arena, &args, &fixture->err),
                     0);
    assert_string_equal(args.pod.name, "ok-high");
    assert_int_equal(args.pod.priority, 1000);
    assert_int_equal(args.n_nodes, 1);

    /* The answer uses the same single key as the request. */
    static const char key[] = "\"NodeNameToMetaVictims\":";
    const struct text copy = {arena_copy(&fixture->arena, body), body.len};
    extender_preempt_encode(&fixture->out, &args, (const bool[]){true});
    assert_string_equal(fixture->out.data + 1, strstr(copy.at, key));
}

WIRE_TEST(recorded_binding_answer__is_a_success)
{
    for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
        const char *path =
            arena_printf(&fixture->arena, "tests/golden/%s/binding-api.json", versions[v]);
        struct json_reader in;
        struct text key;
        struct text response = TEXT("");
        struct status status;
        json_reader_init(&in, read_file(fixture, path), "file", &fixture->arena, &fixture->err);
        assert_true(json_read_object(&in));
        while (json_read_key(&in, &key))
            if (text_is(key, "response"))
                assert_true(json_read_raw(&in, &response));
            else
                assert_true(json_read_skip(&in));
        assert_int_equal(json_reader_finish(&in), 0);
        status_decode(response, &fixture->arena, &status);
        assert_int_equal(status.code, 201);
    }
}
