#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/nri/nri.h"

#include "support/fake_runtime.h"
#include "support/scoped.h"
#include "support/test.h"

/* --- an agent that writes down how it is called --- */

struct agent {
    struct strbuf is_reported;
    struct strbuf payload; /* of the next call */
    struct strbuf part;
    struct strbuf bytes; /* for the session */
    struct nri_session *session;
    struct runtime_reader reader;
    struct runtime_message answer; /* the latest one */
    uint32_t stream;               /* of the next call */
    const char *refusal;           /* the handlers' answer; NULL: yes */
    uint32_t events;               /* that it wants; 0: as it is asked */
    struct nri_adjustment adjust;
    bool ids_only;    /* of a list, only these are written down, */
    bool counts_only; /* or how many there are */
    unsigned pieces;  /* of the list that came last */
    unsigned ends;    /* of lists */
};

static int answer(const struct agent *agent, struct err *err)
{
    return agent->refusal != NULL ? err_set(err, ERR_CONFLICT, "%s", agent->refusal) : 0;
}

static int configure(void *user, const struct nri_runtime *runtime, uint32_t *out_events,
                     struct err *err)
{
    struct agent *agent = user;
    strbuf_printf(&agent->is_reported, "configure %.*s %.*s nri=%.*s\n", TEXT_ARG(runtime->name),
                  TEXT_ARG(runtime->version), TEXT_ARG(runtime->nri));
    assert_int_equal(*out_events, NRI_EVENTS);
    if (agent->events != 0)
        *out_events = agent->events;
    return answer(agent, err);
}

static void report_flaw(struct strbuf *report, enum nri_flaw flaw)
{
    if (flaw != NRI_WHOLE)
        strbuf_str(report, flaw == NRI_BROKEN ? " broken" : " too long");
}

static void report_pod(struct strbuf *report, const struct nri_pod *pod)
{
    struct text allocation;
    (void)nri_annotation(pod, "milligpu.io/allocation", &allocation);
    strbuf_printf(report, " pod %.*s=%.*s/%.*s/%.*s[%.*s]", TEXT_ARG(pod->id),
                  TEXT_ARG(pod->namespace), TEXT_ARG(pod->name), TEXT_ARG(pod->uid),
                  TEXT_ARG(allocation));
    report_flaw(report, pod->flaw);
}

static void report_device(struct strbuf *report, const char *before,
                          const struct nri_device *device)
{
    strbuf_printf(report, "%s%.*s:%.*s:%lld:%lld", before, TEXT_ARG(device->path),
                  TEXT_ARG(device->type), (long long)device->major, (long long)device->minor);
}

static void report_rule(struct strbuf *report, const char *before,
                        const struct nri_device_rule *rule)
{
    strbuf_printf(report, "%s%s:%.*s:%lld:%lld:%.*s", before, rule->allow ? "allow" : "deny",
                  TEXT_ARG(rule->type), (long long)rule->major, (long long)rule->minor,
                  TEXT_ARG(rule->access));
}

static void report_container(struct strbuf *report, const struct nri_container *container)
{
    strbuf_printf(report, " container %.*s=%.*s/%.*s state=%d pid=%u cgroup=%.*s",
                  TEXT_ARG(container->id), TEXT_ARG(container->pod_id), TEXT_ARG(container->name),
                  (int)container->state, container->pid, TEXT_ARG(container->cgroups_path));
    if (container->has_user)
        strbuf_printf(report, " user=%u", container->user);
    for (uint32_t i = 0; i < container->n_envs; i++)
        strbuf_printf(report, " env=%.*s", TEXT_ARG(container->env[i]));
    for (uint32_t i = 0; i < container->n_cdi_devices; i++)
        strbuf_printf(report, " cdi=%.*s", TEXT_ARG(container->cdi_device[i]));
    for (uint32_t i = 0; i < container->n_devices; i++)
        report_device(report, " dev=", &container->device[i]);
    for (uint32_t i = 0; i < container->n_rules; i++)
        report_rule(report, " rule=", &container->rule[i]);
    report_flaw(report, container->flaw);
}

static void report_ids(struct strbuf *report, const struct nri_pod *pod, uint32_t pods,
                       const struct nri_container *container, uint32_t containers)
{
    for (uint32_t i = 0; i < pods; i++)
        strbuf_printf(report, "%.*s ", TEXT_ARG(pod[i].id));
    for (uint32_t i = 0; i < containers; i++)
        strbuf_printf(report, "%.*s ", TEXT_ARG(container[i].id));
}

static void synchronize(void *user, const struct nri_pod *pod, uint32_t pods,
                        const struct nri_container *container, uint32_t containers, bool more)
{
    struct agent *agent = user;
    agent->pieces++;
    agent->ends += !more;
    if (agent->ids_only) {
        report_ids(&agent->is_reported, pod, pods, container, containers);
        return;
    }
    if (agent->counts_only) {
        strbuf_printf(&agent->is_reported, "synchronize %u pods", pods);
        for (uint32_t i = 0; i < containers; i++)
            strbuf_printf(&agent->is_reported, ", container %.*s has %u%s",
                          TEXT_ARG(container[i].id), container[i].n_envs,
                          container[i].flaw == NRI_WHOLE ? "" : " flawed");
        strbuf_char(&agent->is_reported, '\n');
        return;
    }
    strbuf_str(&agent->is_reported, "synchronize");
    for (uint32_t i = 0; i < pods; i++)
        report_pod(&agent->is_reported, &pod[i]);
    for (uint32_t i = 0; i < containers; i++)
        report_container(&agent->is_reported, &container[i]);
    strbuf_str(&agent->is_reported, more ? " more\n" : "\n");
}

static void report_call(struct agent *agent, const char *what, const struct nri_pod *pod,
                        const struct nri_container *container)
{
    strbuf_str(&agent->is_reported, what);
    report_pod(&agent->is_reported, pod);
    strbuf_printf(&agent->is_reported, " container %.*s\n", TEXT_ARG(container->id));
}

static int create(void *user, const struct nri_pod *pod, const struct nri_container *container,
                  struct nri_adjustment *out, struct err *err)
{
    struct agent *agent = user;
    report_call(agent, "create", pod, container);
    *out = agent->adjust;
    return answer(agent, err);
}

static int start(void *user, const struct nri_pod *pod, const struct nri_container *container,
                 struct err *err)
{
    report_call(user, "start", pod, container);
    return answer(user, err);
}

static void stopped(void *user, const struct nri_pod *pod, const struct nri_container *container)
{
    report_call(user, "stopped", pod, container);
}

static void removed(void *user, const struct nri_pod *pod, const struct nri_container *container)
{
    report_call(user, "removed", pod, container);
}

static void pod_stopped(void *user, const struct nri_pod *pod)
{
    struct agent *agent = user;
    strbuf_str(&agent->is_reported, "pod stopped");
    report_pod(&agent->is_reported, pod);
    strbuf_char(&agent->is_reported, '\n');
}

static int validate(void *user, const struct nri_pod *pod, const struct nri_container *container,
                    const struct nri_adjustment *all, enum nri_validator validator, struct err *err)
{
    struct agent *agent = user;
    report_call(agent, "validate", pod, container);
    if (validator != NRI_VALIDATOR_UNKNOWN)
        strbuf_printf(&agent->is_reported, "  validator %s\n",
                      validator == NRI_VALIDATOR_ON ? "on" : "off");
    for (uint32_t i = 0; i < all->n_envs; i++)
        strbuf_printf(&agent->is_reported, "  env %.*s=%.*s\n", TEXT_ARG(all->env[i].key),
                      TEXT_ARG(all->env[i].value));
    for (uint32_t i = 0; i < all->n_cdi_devices; i++)
        strbuf_printf(&agent->is_reported, "  cdi %.*s\n", TEXT_ARG(all->cdi_device[i]));
    for (uint32_t i = 0; i < all->n_devices; i++) {
        report_device(&agent->is_reported, "  dev ", &all->device[i]);
        strbuf_char(&agent->is_reported, '\n');
    }
    for (uint32_t i = 0; i < all->n_rules; i++) {
        report_rule(&agent->is_reported, "  rule ", &all->rule[i]);
        strbuf_char(&agent->is_reported, '\n');
    }
    for (uint32_t i = 0; i < all->n_mounts; i++)
        strbuf_printf(&agent->is_reported, "  mount %.*s from %.*s type %.*s, %u options\n",
                      TEXT_ARG(all->mount[i].destination), TEXT_ARG(all->mount[i].source),
                      TEXT_ARG(all->mount[i].type), all->mount[i].n_options);
    return answer(agent, err);
}

static void agent_init(struct agent *agent)
{
    const struct nri_handlers handlers = {agent,   configure, synchronize, create,  start,
                                          stopped, removed,   pod_stopped, validate};
    *agent = (struct agent){.stream = 1};
    strbuf_init(&agent->is_reported);
    strbuf_init(&agent->payload);
    strbuf_init(&agent->part);
    strbuf_init(&agent->bytes);
    runtime_reader_init(&agent->reader);
    agent->session = nri_session_new(&handlers);
}

static void agent_done(struct agent *agent)
{
    nri_session_free(agent->session);
    runtime_reader_done(&agent->reader);
    strbuf_done(&agent->is_reported);
    strbuf_done(&agent->payload);
    strbuf_done(&agent->part);
    strbuf_done(&agent->bytes);
}

/* --- the runtime's part --- */

static struct text text_in(const struct strbuf *buf)
{
    return (struct text){buf->data, buf->len};
}

static int feed(struct agent *agent, struct err *err)
{
    const int result = nri_feed(agent->session, text_in(&agent->bytes), err);
    strbuf_reset(&agent->bytes);
    return result;
}

static void feed_ok(struct agent *agent)
{
    struct err err = {.code = ERR_NONE};
    if (feed(agent, &err) < 0)
        fail_msg("%s", err.text);
}

/* Reads one answer, and there is no other; true: success. */
static bool read_answer(struct agent *agent, uint32_t stream)
{
    struct text output = nri_output(agent->session);
    const size_t bytes = output.len;
    assert_true(runtime_read(&agent->reader, &output, &agent->answer));
    assert_int_equal(output.len, 0);
    nri_sent(agent->session, bytes);
    assert_int_equal(nri_output(agent->session).len, 0);
    assert_int_equal(agent->answer.connection, 1);
    assert_int_equal(agent->answer.stream, stream);
    assert_int_equal(agent->answer.type, 2);
    return pb_get(agent->answer.data, 1).len == 0;
}

/* Calls with agent->payload, and takes the answer; true: success. */
static bool call(struct agent *agent, const char *method)
{
    must(agent->bytes.len == 0);
    runtime_put_call(&agent->bytes, agent->stream, method, text_in(&agent->payload));
    strbuf_reset(&agent->payload);
    feed_ok(agent);
    agent->stream += 2;
    return read_answer(agent, agent->stream - 2);
}

static struct text payload(const struct agent *agent)
{
    return pb_get(agent->answer.data, 2);
}

/* The latest answer is this error. */
static void expect_error(const struct agent *agent, int code, const char *text)
{
    const struct text status = pb_get(agent->answer.data, 1);
    assert_int_equal(pb_get_number(status, 1), code);
    if (!text_is(pb_get(status, 2), text))
        fail_msg("%.*s, not %s", TEXT_ARG(pb_get(status, 2)), text);
    assert_int_equal(payload(agent).len, 0);
}

static void expect_reported(struct agent *agent, const char *report)
{
    assert_string_equal(agent->is_reported.data, report);
    strbuf_reset(&agent->is_reported);
}

static void put_configure(struct agent *agent)
{
    pb_str(&agent->payload, 1, "");
    pb_str(&agent->payload, 2, "containerd");
    pb_str(&agent->payload, 3, "v2.3.7");
    pb_number(&agent->payload, 4, 5000);
    pb_number(&agent->payload, 5, 2000);
    pb_str(&agent->payload, 6, "v0.12.0");
}

static void put_container_call(struct agent *agent)
{
    runtime_put_pod(&agent->payload, 1, "sandbox-1", "gpu0");
    runtime_put_container(&agent->payload, 2, "c1", "A=1");
}

static void put_state_change(struct agent *agent, unsigned event)
{
    pb_number(&agent->payload, 1, event);
    runtime_put_pod(&agent->payload, 2, "sandbox-1", "gpu0");
    runtime_put_container(&agent->payload, 3, "c1", "A=1");
}

/* Up to the moment when containers may be created. */
static void connect(struct agent *agent)
{
    nri_sent(agent->session, nri_output(agent->session).len);
    runtime_put_welcome(&agent->bytes, 0, "");
    feed_ok(agent);
    put_configure(agent);
    assert_true(call(agent, "Configure"));
    assert_true(call(agent, "Synchronize"));
    assert_true(nri_is_synchronized(agent->session));
    strbuf_reset(&agent->is_reported);
}

static bool call_container(struct agent *agent, const char *method)
{
    put_container_call(agent);
    return call(agent, method);
}

static bool change_state(struct agent *agent, unsigned event)
{
    put_state_change(agent, event);
    return call(agent, "StateChange");
}

static void call_fails(struct agent *agent, const char *method, int code, const char *text)
{
    assert_false(call(agent, method));
    expect_error(agent, code, text);
}

static int set_up(void **state)
{
    struct agent *agent = test_calloc(1, sizeof *agent);
    agent_init(agent);
    *state = agent;
    return 0;
}

static int set_up_session(void **state)
{
    (void)set_up(state);
    connect(*state);
    return 0;
}

static int tear_down(void **state)
{
    agent_done(*state);
    test_free(*state);
    return 0;
}

#define AGENT_TEST(name)   TEST_WITH(name, struct agent *agent, set_up, tear_down)
#define SESSION_TEST(name) TEST_WITH(name, struct agent *agent, set_up_session, tear_down)

#define REPORT_OF " pod sandbox-1=default/web-0/3f0b9b6e-uid[gpu0] container c1\n"

/* --- tests --- */

AGENT_TEST(register__is_the_first_frame)
{
    static const char frame[] = "\0\0\0\2\0\0\0\x48"
                                "\0\0\0\x3e\0\0\0\1\1\0"
                                "\x0a\x1c"
                                "nri.pkg.api.v1alpha1.Runtime"
                                "\x12\x0e"
                                "RegisterPlugin"
                                "\x1a\x0e"
                                "\x0a\x08"
                                "milligpu"
                                "\x12\x02"
                                "20";
    const struct text output = nri_output(agent->session);
    assert_int_equal(output.len, sizeof frame - 1);
    assert_memory_equal(output.at, frame, output.len);
    assert_false(nri_is_synchronized(agent->session));
    /* Sent in two pieces. */
    nri_sent(agent->session, 69);
    assert_true(text_is(nri_output(agent->session), "illigpu\x12\x02\x32\x30"));
    nri_sent(agent->session, 11);
    assert_int_equal(nri_output(agent->session).len, 0);
}

AGENT_TEST(register__reports_a_refusal)
{
    struct err err;
    runtime_put_welcome(&agent->bytes, 2, "invalid plugin \x1b[1m index");
    assert_int_equal(feed(agent, &err), -ERR_FORBIDDEN);
    assert_string_equal(err.text,
                        "the runtime refuses the plugin: invalid plugin \\u001b[1m index");
    /* The session is over, and says the same again. */
    put_configure(agent);
    runtime_put_call(&agent->bytes, 1, "Configure", text_in(&agent->payload));
    assert_int_equal(feed(agent, &err), -ERR_FORBIDDEN);
    expect_reported(agent, "");
}

AGENT_TEST(register__ends_the_session_after_a_broken_answer)
{
    struct err err;
    runtime_put_message(&agent->bytes, 2, (uint32_t[]){1, 2, 0}, TEXT("\x0a\xff"), 4096);
    assert_int_equal(feed(agent, &err), -ERR_INVALID);
    assert_string_equal(err.text,
                        "the answer to RegisterPlugin: Response: this is no such message");
}

AGENT_TEST(register__counts_only_the_first_answer)
{
    runtime_put_message(&agent->bytes, 2, (uint32_t[]){3, 2, 0}, TEXT("\x0a\xff"), 4096);
    runtime_put_message(&agent->bytes, 2, (uint32_t[]){1, 1, 0}, TEXT("\x0a\xff"), 4096);
    runtime_put_welcome(&agent->bytes, 0, "");
    runtime_put_welcome(&agent->bytes, 2, "too late");
    feed_ok(agent);
}

SESSION_TEST(configure__lets_the_handler_choose_events)
{
    put_configure(agent);
    assert_true(call(agent, "Configure"));
    assert_int_equal(pb_get_number(payload(agent), 2), 0x262a);
    assert_false(nri_is_synchronized(agent->session));
    agent->events = NRI_CREATE_CONTAINER | 1U | 1U << 20;
    assert_true(call(agent, "Configure"));
    assert_int_equal(pb_get_number(payload(agent), 2), NRI_CREATE_CONTAINER);
    expect_reported(agent, "configure containerd v2.3.7 nri=v0.12.0\nconfigure   nri=\n");
}

AGENT_TEST(configure__refuses_an_old_runtime)
{
    nri_sent(agent->session, nri_output(agent->session).len);
    agent->refusal = "containerd 1.7.28 has no CDI";
    call_fails(agent, "Configure", 2, "containerd 1.7.28 has no CDI");
    strbuf_reset(&agent->is_reported);
    call_fails(agent, "Synchronize", 9, "called before Configure");
    expect_reported(agent, "");
}

AGENT_TEST(synchronize__takes_a_list_in_two_pieces)
{
    nri_sent(agent->session, nri_output(agent->session).len);
    assert_true(call(agent, "Configure"));
    strbuf_reset(&agent->is_reported);
    runtime_put_pod(&agent->payload, 1, "sandbox-1", "gpu0");
    runtime_put_pod(&agent->payload, 1, "sandbox-2", "gpu1");
    pb_number(&agent->payload, 3, 1);
    assert_true(call(agent, "Synchronize"));
    assert_int_equal(pb_get_number(payload(agent), 2), 1);
    assert_false(nri_is_synchronized(agent->session));
    put_container_call(agent);
    call_fails(agent, "CreateContainer", 9, "called before Synchronize");
    runtime_put_container(&agent->payload, 2, "c1", "A=1");
    assert_true(call(agent, "Synchronize"));
    assert_int_equal(payload(agent).len, 0);
    assert_true(nri_is_synchronized(agent->session));
    expect_reported(
        agent, "synchronize pod sandbox-1=default/web-0/3f0b9b6e-uid[gpu0]"
               " pod sandbox-2=default/web-0/3f0b9b6e-uid[gpu1] more\n"
               "synchronize container c1=sandbox-1/app state=1 pid=4711 cgroup=/kubepods/pod1/app"
               " user=1000 env=PATH=/bin env=A=1 cdi=nvidia.com/gpu=GPU-0 dev=/dev/nvidia0:c:195:0"
               " rule=allow::-1:-1:rwm\n");
}

AGENT_TEST(session__refuses_calls_before_synchronize)
{
    static const char *const method[] = {"CreateContainer", "StartContainer", "StopContainer",
                                         "RemoveContainer", "ValidateContainerAdjustment"};
    nri_sent(agent->session, nri_output(agent->session).len);
    for (size_t i = 0; i < ARRAY_LEN(method); i++) {
        put_container_call(agent);
        call_fails(agent, method[i], 9, "called before Synchronize");
    }
    expect_reported(agent, "");
}

SESSION_TEST(create__sends_the_adjustment)
{
    struct nri_pair env[] = {{TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("void")}};
    struct text cdi[] = {TEXT("nvidia.com/gpu=GPU-0"), TEXT("nvidia.com/gpu=GPU-1")};
    const struct text option[] = {TEXT("rbind"), TEXT("rw")};
    struct nri_mount mount[] = {{TEXT("/mps"), TEXT("/run/mps"), TEXT("bind"), 2, option}};
    struct pb_value value;
    agent->adjust = (struct nri_adjustment){.n_envs = 1,
                                            .env = env,
                                            .n_cdi_devices = 2,
                                            .cdi_device = cdi,
                                            .n_mounts = 1,
                                            .mount = mount};
    assert_true(call_container(agent, "CreateContainer"));
    expect_reported(agent, "create" REPORT_OF);
    const struct text adjust = pb_get(payload(agent), 1);
    assert_true(text_is(pb_get(pb_get(adjust, 4), 1), "NVIDIA_VISIBLE_DEVICES"));
    assert_true(text_is(pb_get(pb_get(adjust, 4), 2), "void"));
    assert_true(text_is(pb_get(pb_get(adjust, 8), 1), "nvidia.com/gpu=GPU-0"));
    assert_true(pb_find(adjust, 8, 1, &value));
    assert_true(text_is(pb_get(value.text, 1), "nvidia.com/gpu=GPU-1"));
    assert_false(pb_find(adjust, 8, 2, &value));
    const struct text seen = pb_get(adjust, 3);
    assert_true(text_is(pb_get(seen, 1), "/mps"));
    assert_true(text_is(pb_get(seen, 2), "bind"));
    assert_true(text_is(pb_get(seen, 3), "/run/mps"));
    assert_true(pb_find(seen, 4, 1, &value) && text_is(value.text, "rw"));
}

SESSION_TEST(answer__comes_in_short_frames)
{
    static char value[6000];
    memset(value, 'x', sizeof value);
    struct nri_pair env[] = {{TEXT("LONG"), {value, sizeof value}}};
    agent->adjust = (struct nri_adjustment){.n_envs = 1, .env = env};
    assert_true(call_container(agent, "CreateContainer"));
    assert_int_equal(agent->reader.frames, 2);
    const struct text got = pb_get(pb_get(pb_get(payload(agent), 1), 4), 2);
    assert_int_equal(got.len, sizeof value);
    assert_memory_equal(got.at, value, sizeof value);
}

SESSION_TEST(answer__is_refused_when_too_large)
{
    static char value[NRI_MESSAGE_MAX];
    struct nri_pair env[] = {{TEXT("LONG"), {value, sizeof value}}};
    agent->adjust = (struct nri_adjustment){.n_envs = 1, .env = env};
    put_container_call(agent);
    call_fails(agent, "CreateContainer", 8, "the answer is too large: 4194325 bytes");
}

SESSION_TEST(create__answers_with_the_refusal)
{
    agent->refusal = "milligpu: no GPU was given to \xff";
    put_container_call(agent);
    call_fails(agent, "CreateContainer", 2, "milligpu: no GPU was given to \xef\xbf\xbd");
    put_container_call(agent);
    assert_false(call(agent, "StartContainer"));
    put_state_change(agent, 6);
    assert_false(call(agent, "StateChange"));
    /* The end of a container cannot be refused. */
    assert_true(call_container(agent, "StopContainer"));
    /* The next one may be fine. */
    agent->refusal = NULL;
    assert_true(call_container(agent, "CreateContainer"));
}

SESSION_TEST(state_change__reports_like_the_newer_calls)
{
    static const struct {
        const char *method;
        unsigned event;
        const char *report;
    } way[] = {{"StartContainer", 6, "start" REPORT_OF "start" REPORT_OF},
               {"StopContainer", 10, "stopped" REPORT_OF "stopped" REPORT_OF},
               {"RemoveContainer", 11, "removed" REPORT_OF "removed" REPORT_OF}};
    for (size_t i = 0; i < ARRAY_LEN(way); i++) {
        assert_true(call_container(agent, way[i].method));
        assert_int_equal(agent->answer.data.len, 0);
        assert_true(change_state(agent, way[i].event));
        assert_int_equal(agent->answer.data.len, 0);
        expect_reported(agent, way[i].report);
    }
    for (unsigned event = 0; event < 20; event++) {
        if (event == 2 || event == 6 || event == 10 || event == 11)
            continue;
        assert_true(change_state(agent, event));
    }
    expect_reported(agent, "");
}

SESSION_TEST(pod_stopped__is_reported_by_old_and_new_runtimes)
{
    runtime_put_pod(&agent->payload, 1, "sandbox-1", "gpu0");
    assert_true(call(agent, "StopPodSandbox"));
    SCOPED_STRBUF(once);
    strbuf_add(&once, agent->is_reported.data, agent->is_reported.len);
    assert_non_null(strstr(once.data, "pod stopped pod sandbox-1="));
    strbuf_reset(&agent->is_reported);
    assert_true(change_state(agent, 2));
    assert_non_null(strstr(agent->is_reported.data, "pod stopped pod "));
    strbuf_reset(&agent->is_reported);
    call_fails(agent, "StopPodSandbox", 3, "the call names no pod");
    expect_reported(agent, "");
}

SESSION_TEST(call__is_refused_without_its_container)
{
    runtime_put_pod(&agent->payload, 1, "sandbox-1", "gpu0");
    call_fails(agent, "CreateContainer", 3, "the call names no container");
    runtime_put_container(&agent->payload, 2, "c1", "A=1");
    call_fails(agent, "ValidateContainerAdjustment", 3, "the call names no pod");
    expect_reported(agent, "");
    runtime_put_container(&agent->payload, 2, "c1", "A=1");
    assert_true(call(agent, "RemoveContainer"));
    expect_reported(agent, "removed pod =//[] container c1\n");
}

static void put_rule(struct strbuf *resources, uint64_t allow, uint64_t major, uint64_t minor)
{
    SCOPED_STRBUF(rule);
    SCOPED_STRBUF(number);
    pb_number(&rule, 1, allow);
    pb_str(&rule, 2, "c");
    pb_number(&number, 1, major);
    pb_message(&rule, 3, &number);
    pb_number(&number, 1, minor);
    pb_message(&rule, 4, &number);
    pb_message(resources, 7, &rule);
}

static void put_rules(struct strbuf *adjustment)
{
    SCOPED_STRBUF(resources);
    put_rule(&resources, 2, 195, 2);
    put_rule(&resources, 0, 0, (uint64_t)-2);
    pb_message(adjustment, 2, &resources);
}

static void put_adjustment(struct agent *agent)
{
    SCOPED_STRBUF(adjust);
    pb_pair(&adjust, 2, TEXT("note"), TEXT("of another plugin"));
    pb_pair(&adjust, 4, TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("all"));
    pb_pair(&adjust, 4, TEXT("-HOME"), TEXT(""));
    pb_str(&agent->part, 1, "nvidia.com/gpu=all");
    pb_message(&adjust, 8, &agent->part);
    pb_str(&agent->part, 1, "/dev");
    pb_str(&agent->part, 2, "bind");
    pb_str(&agent->part, 3, "/host/dev");
    pb_str(&agent->part, 4, "rw");
    pb_message(&adjust, 3, &agent->part);
    SCOPED_STRBUF(device);
    pb_str(&device, 1, "/dev/x");
    pb_str(&device, 2, "c");
    pb_number(&device, 3, 195);
    pb_number(&device, 4, 3);
    pb_message(&agent->part, 1, &device);
    put_rules(&agent->part);
    pb_message(&adjust, 6, &agent->part);
    pb_message(&agent->payload, 3, &adjust);
}

SESSION_TEST(validate__can_reject_the_adjustments_of_all_plugins)
{
    static const char report[] = "validate" REPORT_OF "  env NVIDIA_VISIBLE_DEVICES=all\n"
                                 "  env -HOME=\n"
                                 "  cdi nvidia.com/gpu=all\n"
                                 "  dev /dev/x:c:195:3\n"
                                 "  rule allow:c:195:2:\n"
                                 "  rule deny:c:0:-1:\n"
                                 "  mount /dev from /host/dev type bind, 1 options\n";
    put_container_call(agent);
    put_adjustment(agent);
    assert_true(call(agent, "ValidateContainerAdjustment"));
    assert_int_equal(payload(agent).len, 0);
    expect_reported(agent, report);
    agent->refusal = "nvidia.com/gpu=all is not what milligpu gave";
    put_container_call(agent);
    put_adjustment(agent);
    /* A rejection is an answer, not an error. */
    assert_true(call(agent, "ValidateContainerAdjustment"));
    assert_int_equal(pb_get_number(payload(agent), 1), 1);
    assert_true(text_is(pb_get(payload(agent), 2), agent->refusal));
    expect_reported(agent, report);
}

/* Plugins that were asked: field 6, each with its name and index. */
static void put_plugins(struct agent *agent, const char *const *name, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        strbuf_reset(&agent->part);
        pb_str(&agent->part, 1, name[i]);
        pb_str(&agent->part, 2, "00");
        pb_message(&agent->payload, 6, &agent->part);
    }
}

SESSION_TEST(validate__shows_the_validator_of_the_runtime)
{
    static const char *const name[] = {"milligpu", "default-validators", "default-validator"};
    static const char *const report[] = {"", "  validator off\n", "  validator off\n",
                                         "  validator on\n"};
    for (size_t i = 0; i < ARRAY_LEN(report); i++) {
        char expected[300];
        put_container_call(agent);
        put_plugins(agent, name, i);
        assert_true(call(agent, "ValidateContainerAdjustment"));
        (void)snprintf(expected, sizeof expected, "validate" REPORT_OF "%s", report[i]);
        expect_reported(agent, expected);
    }
}

SESSION_TEST(call__answers_unknown_methods)
{
    call_fails(agent, "RunPodSandbox", 12,
               "no such method: /nri.pkg.api.v1alpha1.Plugin/RunPodSandbox");
    pb_str(&agent->payload, 1, "nri.pkg.api.v1alpha1.HostFunctions");
    pb_str(&agent->payload, 2, "Configure");
    runtime_put_message(&agent->bytes, 1, (uint32_t[]){agent->stream, 1, 0},
                        text_in(&agent->payload), 4096);
    feed_ok(agent);
    assert_false(read_answer(agent, agent->stream));
    expect_error(agent, 12, "no such method: /nri.pkg.api.v1alpha1.HostFunctions/Configure");
    /* A stream of messages is no call of ours either. */
    strbuf_reset(&agent->payload);
    pb_str(&agent->payload, 1, "nri.pkg.api.v1alpha1.Plugin");
    pb_str(&agent->payload, 2, "Shutdown");
    runtime_put_message(&agent->bytes, 1, (uint32_t[]){agent->stream + 2, 1, 2},
                        text_in(&agent->payload), 4096);
    feed_ok(agent);
    assert_false(read_answer(agent, agent->stream + 2));
    expect_reported(agent, "");
    agent->stream += 4;
    strbuf_reset(&agent->payload);
    assert_true(call(agent, "Shutdown"));
    assert_int_equal(agent->answer.data.len, 0);
}

SESSION_TEST(call__answers_invalid_requests)
{
    runtime_put_message(&agent->bytes, 1, (uint32_t[]){agent->stream, 1, 0}, TEXT("\x0a\xff\xff"),
                        4096);
    feed_ok(agent);
    assert_false(read_answer(agent, agent->stream));
    expect_error(agent, 3, "Request: this is no such message");
    agent->stream += 2;
    static const char *const method[] = {
        "Configure",     "Synchronize",     "CreateContainer", "StartContainer",
        "StopContainer", "RemoveContainer", "StateChange",     "ValidateContainerAdjustment"};
    for (size_t i = ARRAY_LEN(method); i > 0; i--) {
        strbuf_str(&agent->payload, "\x0a\x7f rubbish");
        assert_false(call(agent, method[i - 1]));
        assert_int_equal(pb_get_number(pb_get(agent->answer.data, 1), 1), 3);
    }
    expect_reported(agent, "");
    connect(agent);
}

SESSION_TEST(stream__is_used_once)
{
    /* with 1 and 3 */
    agent->stream = 3;
    call_fails(agent, "Shutdown", 3, "stream 3 after stream 3");
    agent->stream = 6;
    call_fails(agent, "Shutdown", 3, "stream 6 after stream 3");
    agent->stream = 5;
    assert_true(call(agent, "Shutdown"));
}

SESSION_TEST(session__skips_other_connections_and_types)
{
    for (uint32_t connection = 0; connection < 5; connection++)
        if (connection != 1)
            runtime_put_message(&agent->bytes, connection, (uint32_t[]){7, 1, 0}, TEXT("\x0a\xff"),
                                4096);
    for (uint32_t type = 0; type < 256; type++)
        if (type != 1)
            runtime_put_message(&agent->bytes, 1, (uint32_t[]){9, type, 0}, TEXT("\x0a\xff"), 4096);
    feed_ok(agent);
    assert_int_equal(nri_output(agent->session).len, 0);
    assert_true(call(agent, "Shutdown"));
}

SESSION_TEST(session__ends_after_a_too_long_message)
{
    struct err err;
    strbuf_add(&agent->bytes, "\0\0\0\1\0\0\0\x0a\0\x40\0\1\0\0\0\x0b\1\0", 18);
    assert_int_equal(feed(agent, &err), -ERR_TOO_LARGE);
    assert_false(nri_is_synchronized(agent->session));
}

/* Elements of this list field, each empty: two bytes, the smallest that there is. */
static void put_empty(struct strbuf *out, unsigned field, int count)
{
    must(field < 16);
    for (int i = 0; i < count; i++) {
        strbuf_char(out, (char)(field << 3 | 2));
        strbuf_char(out, 0);
    }
}

enum { ARGS = 7, ENV = 8, MANY = 1800000, FIT = 1000000 };

/* The attack: a pod of 666 bytes that asks for nothing, with an image whose Cmd is long. */
SESSION_TEST(decoder__skips_unread_fields_without_cost)
{
    pb_str(&agent->part, 1, "long");
    pb_str(&agent->part, 2, "sandbox-1");
    put_empty(&agent->part, ARGS, MANY);
    pb_message(&agent->payload, 2, &agent->part);
    put_empty(&agent->payload, 9, 10); /* of the list itself */
    runtime_put_container(&agent->payload, 2, "c1", "A=1");
    assert_true(call(agent, "Synchronize"));
    assert_non_null(strstr(agent->is_reported.data, "container long=sandbox-1/ "));
    assert_non_null(strstr(agent->is_reported.data, "container c1=sandbox-1/app "));
    strbuf_reset(&agent->is_reported);
    runtime_put_pod(&agent->payload, 1, "sandbox-1", "gpu0");
    pb_str(&agent->part, 1, "c1");
    put_empty(&agent->part, ARGS, MANY);
    pb_message(&agent->payload, 2, &agent->part);
    assert_true(call(agent, "CreateContainer"));
    expect_reported(agent, "create" REPORT_OF);
}

SESSION_TEST(decoder__keeps_neighbours_of_a_too_long_member)
{
    static const char *const id[] = {"before", "long", "after"};
    for (size_t i = 0; i < ARRAY_LEN(id); i++) {
        pb_str(&agent->part, 1, id[i]);
        put_empty(&agent->part, 6, i == 1 ? 600000 : 0); /* annotations */
        pb_message(&agent->payload, 1, &agent->part);
    }
    for (size_t i = 0; i < ARRAY_LEN(id); i++) {
        SCOPED_STRBUF(device);
        pb_str(&agent->part, 1, id[i]);
        put_empty(&agent->part, ENV, i == 1 ? FIT + 100000 : 1);
        pb_str(&device, 1, "cdi");
        pb_message(&agent->part, 20, &device);
        pb_message(&agent->payload, 2, &agent->part);
    }
    assert_true(call(agent, "Synchronize"));
    expect_reported(agent, "synchronize pod before=//[] pod long=//[] too long pod after=//[]"
                           " container before=/ state=0 pid=0 cgroup= env= cdi=cdi"
                           " container long=/ state=0 pid=0 cgroup= cdi=cdi too long"
                           " container after=/ state=0 pid=0 cgroup= env= cdi=cdi\n");
}

/* As many variables as the kernel could start a program with are read. */
AGENT_TEST(decoder__reads_a_long_member_that_fits)
{
    agent->counts_only = true;
    connect(agent);
    pb_str(&agent->part, 1, "c1");
    put_empty(&agent->part, ENV, FIT);
    pb_message(&agent->payload, 2, &agent->part);
    assert_true(call(agent, "Synchronize"));
    expect_reported(agent, "synchronize 0 pods, container c1 has 1000000\nsynchronize 0 pods\n");
    /* All lists of one container have one limit, devices and rules before variables. */
    SCOPED_STRBUF(host);
    SCOPED_STRBUF(resources);
    for (int i = 0; i < 2; i++) {
        put_empty(i == 0 ? &host : &resources, i == 0 ? 2 : 7, FIT / 4);
        if (i == 1)
            pb_message(&host, 3, &resources);
        pb_str(&agent->part, 1, "c2");
        put_empty(&agent->part, ENV, FIT / 2);
        pb_message(&agent->part, 11, &host);
        pb_message(&agent->payload, 2, &agent->part);
        assert_true(call(agent, "Synchronize"));
        expect_reported(agent,
                        "synchronize 0 pods, container c2 has 0 flawed\nsynchronize 0 pods\n");
    }
}

TEST(decoder__keeps_neighbours_of_a_broken_member)
{
    static const char *const rubbish[] = {
        "\x0a\4long\xff", "\x0a\4long\x5a\x7f", "\x0a\4long\x20", "\x0a\4long\xa3\x06",
        "\x0a\4long\x42\1A\x40\1",
        /* a device, */
        "\x0a\4long\x5a\2\x10\1",
        /* its type and number, */
        "\x0a\4long\x5a\4\x12\2\x10\1", "\x0a\4long\x5a\5\x12\3\x1a\1x",
        /* resources, a rule, its word and its numbers */
        "\x0a\4long\x5a\2\x18\1", "\x0a\4long\x5a\4\x1a\2\x38\1",
        "\x0a\4long\x5a\x08\x1a\2\x08\1\x1a\2\x08\1", "\x0a\4long\x5a\7\x1a\5\x3a\3\x0a\1x",
        "\x0a\4long\x5a\x0c\x1a\x0a\x3a\x08\x1a\2\x08\1\x1a\2\x08\1",
        "\x0a\4long\x5a\x0c\x1a\x0a\x3a\x08\x22\2\x08\1\x22\2\x08\1",
        "\x0a\4long\x5a\x09\x1a\7\x3a\5\x22\3\x0a\1x"};
    for (size_t i = 0; i < ARRAY_LEN(rubbish); i++) {
        CLEANUP(agent_done) struct agent agent;
        agent_init(&agent);
        connect(&agent);
        runtime_put_pod(&agent.payload, 1, "sandbox-1", "gpu0");
        pb_str(&agent.part, 1, "id");
        pb_pair(&agent.part, 6, TEXT("milligpu.io/allocation"), TEXT("gpu1"));
        pb_str(&agent.part, 6, "\xff");
        pb_message(&agent.payload, 1, &agent.part);
        pb_str(&agent.payload, 2, rubbish[i]);
        runtime_put_container(&agent.payload, 2, "c1", "A=1");
        assert_true(call(&agent, "Synchronize"));
        assert_true(nri_is_synchronized(agent.session));
        expect_reported(&agent,
                        "synchronize pod sandbox-1=default/web-0/3f0b9b6e-uid[gpu0]"
                        " pod id=//[] broken container long=/ state=0 pid=0 cgroup= broken"
                        " container c1=sandbox-1/app state=1 pid=4711 cgroup=/kubepods/pod1/app"
                        " user=1000 env=PATH=/bin env=A=1 cdi=nvidia.com/gpu=GPU-0"
                        " dev=/dev/nvidia0:c:195:0 rule=allow::-1:-1:rwm\n");
        /* In a call about one container there are no others. */
        runtime_put_pod(&agent.payload, 1, "sandbox-1", "gpu0");
        pb_str(&agent.payload, 2, rubbish[i]);
        call_fails(&agent, "CreateContainer", 3, "ContainerRequest: this is no such message");
        expect_reported(&agent, "");
    }
}

/* Then the end of a member and the begin of the next are unknown. */
TEST(synchronize__refuses_a_broken_list)
{
    for (unsigned field = 1; field <= 3; field++) {
        CLEANUP(agent_done) struct agent agent;
        agent_init(&agent);
        connect(&agent);
        runtime_put_pod(&agent.payload, 1, "sandbox-1", "gpu0");
        if (field < 3)
            pb_number(&agent.payload, field, 1);
        else
            pb_str(&agent.payload, field, "");
        call_fails(&agent, "Synchronize", 3, "SynchronizeRequest: this is no such message");
        assert_false(nri_is_synchronized(agent.session));
        expect_reported(&agent, "");
    }
}

/* Which of two would count? */
SESSION_TEST(decoder__refuses_a_repeated_message)
{
    for (unsigned field = 1; field <= 3; field++) {
        put_container_call(agent);
        put_adjustment(agent);
        pb_str(&agent->payload, field, "");
        call_fails(agent, "ValidateContainerAdjustment", 3,
                   "ContainerRequest: this is no such message");
    }
    for (unsigned field = 2; field <= 3; field++) {
        put_state_change(agent, 6);
        pb_str(&agent->payload, field, "");
        call_fails(agent, "StateChange", 3, "StateChangeEvent: this is no such message");
    }
    expect_reported(agent, "");
    for (int i = 0; i < 2; i++)
        pb_str(&agent->part, 11, "");
    pb_message(&agent->payload, 2, &agent->part);
    for (int i = 0; i < 2; i++)
        pb_str(&agent->part, 21, "");
    pb_message(&agent->payload, 2, &agent->part);
    assert_true(call(agent, "Synchronize"));
    expect_reported(agent, "synchronize container =/ state=0 pid=0 cgroup= broken"
                           " container =/ state=0 pid=0 cgroup= broken\n");
}

SESSION_TEST(validate__refuses_a_too_long_adjustment)
{
    put_container_call(agent);
    put_empty(&agent->part, 3, 300000); /* mounts */
    pb_message(&agent->payload, 3, &agent->part);
    call_fails(agent, "ValidateContainerAdjustment", 8, "ContainerAdjustment: too many fields");
    put_container_call(agent);
    pb_str(&agent->part, 4, "\xff");
    pb_message(&agent->payload, 3, &agent->part);
    call_fails(agent, "ValidateContainerAdjustment", 3,
               "ContainerAdjustment: this is no such message");
    expect_reported(agent, "");
}

/* Each element arrives once and in order, and only the last call ends the list. */
SESSION_TEST(synchronize__passes_a_long_list_in_pieces)
{
    SCOPED_STRBUF(ids);
    char id[16];
    for (unsigned field = 1; field <= 2; field++)
        for (int i = 0; i < 300; i++) {
            (void)snprintf(id, sizeof id, "%c%d", field == 1 ? 'p' : 'c', i);
            pb_str(&agent->part, 1, id);
            pb_message(&agent->payload, field, &agent->part);
            strbuf_printf(&ids, "%s ", id);
        }
    agent->ids_only = true;
    agent->pieces = agent->ends = 0;
    assert_true(call(agent, "Synchronize"));
    assert_true(nri_is_synchronized(agent->session));
    assert_int_equal(agent->pieces, 9);
    assert_int_equal(agent->ends, 1);
    expect_reported(agent, ids.data);
    pb_number(&agent->payload, 3, 1);
    assert_true(call(agent, "Synchronize"));
    assert_int_equal(agent->ends, 1);
}

/* A runtime puts up to 4 MiB into one call. */
SESSION_TEST(synchronize__takes_a_full_node)
{
    while (agent->payload.len < NRI_MESSAGE_MAX - 4096) {
        runtime_put_pod(&agent->payload, 1, "s", "");
        runtime_put_container(&agent->payload, 2, "c", "A=");
    }
    assert_true(call(agent, "Synchronize"));
}

SESSION_TEST(session__ends_when_the_runtime_does_not_read)
{
    struct err err;
    static char value[NRI_MESSAGE_MAX / 2];
    struct nri_pair env[] = {{TEXT("LONG"), {value, sizeof value}}};
    agent->adjust = (struct nri_adjustment){.n_envs = 1, .env = env};
    put_container_call(agent);
    int answers = 0;
    for (;; agent->stream += 2, answers++) {
        runtime_put_call(&agent->bytes, agent->stream, "CreateContainer", text_in(&agent->payload));
        if (feed(agent, &err) < 0)
            break;
        assert_true(answers < 4);
    }
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_string_equal(err.text, "the runtime calls, but does not read the answers");
}

SESSION_TEST(decoder__keeps_the_length_of_texts)
{
    struct nri_pair annotation[] = {{TEXT("key\0more"), TEXT("a")},
                                    {TEXT("key"), TEXT("first")},
                                    {TEXT("key"), TEXT("l\0st")},
                                    {TEXT("other"), TEXT("")}};
    const struct nri_pod pod = {.n_annotations = 4, .annotation = annotation};
    struct text value;
    assert_true(nri_annotation(&pod, "key", &value));
    assert_int_equal(value.len, 4);
    assert_memory_equal(value.at, "l\0st", 4);
    assert_true(nri_annotation(&pod, "other", &value));
    assert_int_equal(value.len, 0);
    assert_false(nri_annotation(&pod, "ke", &value));
    assert_int_equal(value.len, 0);
    /* Through the wire too. */
    pb_pair(&agent->part, 6, TEXT("milligpu.io/allocation\0"), TEXT("forged"));
    pb_pair(&agent->part, 6, TEXT("milligpu.io/allocation"), TEXT("\xff"));
    pb_message(&agent->payload, 1, &agent->part);
    runtime_put_container(&agent->payload, 2, "c1", "A=1");
    assert_true(call(agent, "StartContainer"));
    expect_reported(agent, "start pod =//[\xff] container c1\n");
}

AGENT_TEST(session__accepts_without_handlers)
{
    static const char *const method[] = {"Configure",
                                         "Synchronize",
                                         "CreateContainer",
                                         "StartContainer",
                                         "StopContainer",
                                         "RemoveContainer",
                                         "ValidateContainerAdjustment"};
    nri_session_free(agent->session);
    agent->session = nri_session_new(&(struct nri_handlers){.user = NULL});
    nri_sent(agent->session, nri_output(agent->session).len);
    for (size_t i = 0; i < ARRAY_LEN(method); i++) {
        if (i > 1)
            put_container_call(agent);
        assert_true(call(agent, method[i]));
        if (i == 0)
            assert_int_equal(pb_get_number(payload(agent), 2), NRI_EVENTS);
        else
            assert_int_equal(agent->answer.data.len, 0);
    }
}

SESSION_TEST(decoder__maps_an_unknown_state)
{
    SCOPED_STRBUF(root);
    for (uint64_t i = 0; i < 3; i++) {
        pb_number(&agent->part, 4, i == 0 ? 4 : i == 1 ? 5 : UINT64_MAX);
        if (i == 2)
            pb_message(&agent->part, 21, &root); /* a number that is 0 is not written */
        pb_message(&agent->payload, 2, &agent->part);
    }
    assert_true(call(agent, "Synchronize"));
    expect_reported(agent,
                    "synchronize container =/ state=4 pid=0 cgroup= container =/ state=0 pid=0"
                    " cgroup= container =/ state=0 pid=0 cgroup= user=0\n");
}

TEST(session__takes_frames_of_any_length)
{
    for (size_t frame = 1; frame < 64; frame++) {
        CLEANUP(agent_done) struct agent agent;
        SCOPED_STRBUF(request);
        agent_init(&agent);
        connect(&agent);
        put_container_call(&agent);
        pb_str(&request, 1, "nri.pkg.api.v1alpha1.Plugin");
        pb_str(&request, 2, "StartContainer");
        pb_message(&request, 3, &agent.payload);
        runtime_put_message(&agent.bytes, 1, (uint32_t[]){agent.stream, 1, 1}, text_in(&request),
                            frame);
        feed_ok(&agent);
        assert_true(read_answer(&agent, agent.stream));
        expect_reported(&agent, "start" REPORT_OF);
    }
}
