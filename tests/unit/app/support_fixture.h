/*
 * support_fixture - the whole application in one thread, under a clock that the test moves.
 *
 * Real parts: writer, informer, outbox, webhooks, the fake API server, the store in memory. Between
 * them faults can be injected: store_ops that fail on demand, kube_ops that lose answers on demand,
 * and a fault that strikes the n-th call of either. Web calls are records that keep their answer;
 * there are no sockets.
 */
#ifndef MILLIGPU_TESTS_APP_FIXTURE_H
#define MILLIGPU_TESTS_APP_FIXTURE_H

#include "milligpu/daemon/assembly.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"
#include "milligpu/sync/informer.h"
#include "milligpu/webhook/webhooks.h"
#include "milligpu/writer/writer.h"

#include "support/fake_http.h"

struct fixture_call {
    struct http_call http;
    struct strbuf body;
    bool cut; /* the process ended before it was answered */
    char pod[64];
    char node[64];
};

enum fixture_point {
    POINT_NOWHERE,
    POINT_BEGIN,
    POINT_WRITE,
    POINT_COMMIT,
    POINT_MAINTAIN,
    POINT_LEARN,
    POINT_MEASURE,
    POINT_KEEP_POLICY,
    POINT_REMEMBER,
    POINT_REQUEST
};

/* The outcome of a request to the API server. */
enum fixture_trouble {
    POINT_REFUSED, /* start() says no */
    POINT_UNSENT,  /* FAILED, and certainly not processed */
    POINT_LOST,    /* FAILED; not processed, but the caller cannot know */
    POINT_UNHEARD, /* FAILED; processed, but the caller cannot know */
    POINT_STATUS,  /* answered with a status, not processed */
    POINT_SHORT,   /* processed; the answer ends in the middle */
};

/*
 * The nth call at a point fails; if the fault is lasting, so does every later one until
 * fixture_heal().
 */
struct fixture_fault {
    enum fixture_point point;
    uint32_t nth; /* from 1 */
    bool lasting;
    enum fixture_trouble trouble; /* with POINT_REQUEST */
    int status;                   /* with POINT_STATUS */
};

enum { POINT_LATE_MAX = 64 };

/* An answer that the fixture gives when it is due. */
struct fixture_late {
    uint64_t id; /* 0: free */
    int64_t due_ms;
    int status; /* 0: FAILED */
    bool unsent;
    struct strbuf body;
};

/* kube_ops of one thread, wrapped around the real ones. */
struct fixture_wire {
    struct app_fixture *fixture;
    struct kube_ops real;
    struct kube_ops ops;
    struct fixture_late late[POINT_LATE_MAX];
};

struct app_fixture {
    struct app app;
    struct app_parts parts;
    struct settings settings;
    /* with which a process begins; NULL: settings.policy, bare */
    const struct rulebook *rulebook;
    struct store_ops real_store;
    struct fixture_wire watch;
    struct fixture_wire call;
    struct fixture_fault fault;
    uint32_t met;    /* calls at the fault's point since it was set */
    uint32_t struck; /* and how many of them failed */
    uint32_t felt;   /* how many of those in this process */
    const char *ledger;
    int64_t now_ms;
    int64_t wall_ms;
    bool disk_full;     /* every COMMIT fails */
    bool contradict;    /* the next write is refused by the database */
    bool lose_answers;  /* Bindings happen, but their answers are lost */
    bool lose_requests; /* Bindings do not happen, and no answer says so */
    uint32_t commits;
    uint32_t bindings; /* POSTs that were started */
    uint32_t wake_ups;
    uint32_t pod_lists;    /* that were started */
    int64_t list_takes_ms; /* a list of pods takes this long and shows the state when it began */
    struct fixture_call *calls[256];
    size_t call_count;
};

/* nodes: {name, milli} pairs, model A100, ended by NULL. */
struct app_fixture *fixture_new(const char *const *nodes);
/* No node yet, and nothing has run. ledger: ":memory:" or a file; borrowed. */
struct app_fixture *fixture_new_on(const char *ledger);
void fixture_free(struct app_fixture *fixture);
/* Removes a closed ledger file and the files beside it. */
void fixture_remove_ledger(const char *path);
/* Set-up and tear-down of a cmocka test: n1 and n2, with one GPU each. */
extern const char *const fixture_two_nodes[];
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
#define APP_TEST(name)                                                                             \
    TEST_WITH(name, struct app_fixture *fixture, fixture_set_up, fixture_tear_down)
/* The process ends, and its calls in flight with it; another starts on the same ledger. */
void fixture_restart(struct app_fixture *fixture);
void fixture_restart_and_run(struct app_fixture *fixture);
/* Restarts on a new ledger in memory that belongs to no cluster yet. */
void fixture_lose_ledger(struct app_fixture *fixture);

void fixture_break(struct app_fixture *fixture, const struct fixture_fault *fault);
/* The next call at this point of the store fails; lasting: and each later one. */
void fixture_break_store(struct app_fixture *fixture, enum fixture_point point, bool lasting);
void fixture_heal(struct app_fixture *fixture);
/* The disk fails for good, and this process has met that. */
bool fixture_disk_broken(const struct app_fixture *fixture);

/* Runs until nothing moves any more; bounded. */
void fixture_run(struct app_fixture *fixture);
/* The same without the watch. */
void fixture_run_deaf(struct app_fixture *fixture);
/* Let time pass, half a second at a time. */
void fixture_pass(struct app_fixture *fixture, int64_t ms);
/* Stops at the first moment in which the daemon is ready; false: it never was. */
bool fixture_pass_until_ready(struct app_fixture *fixture, int64_t ms);
/* Two minutes: every back-off, deadline and doubt has ended. */
void fixture_run_until_idle(struct app_fixture *fixture);

/* The API server's side. A request must succeed. */
void fixture_api(struct app_fixture *fixture, const char *method, const char *path,
                 const char *body);
/* Appends the answer to out. */
void fixture_get(struct app_fixture *fixture, const char *path, struct strbuf *out);
/* limits: "300" and so on for one container c. */
void fixture_pod(struct app_fixture *fixture, const char *name, const char *limits);
/* The same, and the watch shows it. */
void fixture_show_pod(struct app_fixture *fixture, const char *name, const char *limits);
void fixture_bound_pod(struct app_fixture *fixture, const char *name, const char *limits,
                       const char *node);
/* limits and annotations as JSON has them inside the braces (NULL: none); node NULL: unbound. */
void fixture_pod_of(struct app_fixture *fixture, const char *name, const char *limits,
                    const char *annotations, const char *node);
/* "p7" of "p" and 7, valid until the next call. */
const char *fixture_name(const char *prefix, int number);
/* "key":"value" or "key":null, as a client would patch it in. */
void fixture_annotate(struct app_fixture *fixture, const char *name, const char *annotations);
void fixture_annotate_node(struct app_fixture *fixture, const char *name, const char *annotations);
/* spec: JSON members that are merged into the spec: "\"unschedulable\":true". */
void fixture_change_node(struct app_fixture *fixture, const char *name, const char *spec);
void fixture_change_pod(struct app_fixture *fixture, const char *name, const char *spec);
void fixture_label_node(struct app_fixture *fixture, const char *name, const char *labels);
void fixture_delete_pod(struct app_fixture *fixture, const char *name); /* gone at once */
void fixture_terminate_pod(struct app_fixture *fixture,
                           const char *name);                        /* a deletion timestamp */
void fixture_end_pod(struct app_fixture *fixture, const char *name); /* phase Succeeded */
void fixture_node(struct app_fixture *fixture, const char *name, const char *milli);
/* With milligpu.io/gpus: "GPU-1 GPU-2", "" for none. */
void fixture_node_with(struct app_fixture *fixture, const char *name, const char *uuids);
void fixture_delete_node(struct app_fixture *fixture, const char *name);
/* spec.nodeName of the pod; "" while unbound; NULL if it is not there. Valid until the next
   call. */
const char *fixture_where(struct app_fixture *fixture, const char *name);

/* As the daemon applies a policy document that it has read. The next process begins with it. */
void fixture_policy(struct app_fixture *fixture, const struct rulebook *take_book);

/* Any webhook: "/scheduler/prioritize" and so on. */
const char *fixture_ask(struct app_fixture *fixture, const char *path, const char *body);
/* kube-scheduler's side: the text of the answer. names: separated by spaces. */
const char *fixture_filter(struct app_fixture *fixture, const char *pod, const char *names);
/* The same for a pod as it was seen earlier: fixture_object() shows it. */
void fixture_object(struct app_fixture *fixture, const char *pod, struct strbuf *out);
const char *fixture_filter_of(struct app_fixture *fixture, const char *object, const char *names);
/* Runs; does filter name this node alone when it is asked about it? */
bool fixture_fits(struct app_fixture *fixture, const char *pod, const char *node);
struct fixture_call *fixture_bind_begin(struct app_fixture *fixture, const char *pod,
                                        const char *node);
/* begin, run, and the Error text ("" is success). */
const char *fixture_bind(struct app_fixture *fixture, const char *pod, const char *node);
/* Creates the pod and binds it through milligpu; both must succeed. */
void fixture_grant(struct app_fixture *fixture, const char *pod, const char *limits,
                   const char *node);
const char *fixture_error(const struct fixture_call *call);

/* Facts of the snapshot. */
uint32_t fixture_taken(struct app_fixture *fixture,
                       const char *node); /* milli, bound and reserved */
uint32_t fixture_reserved(struct app_fixture *fixture, const char *node);
size_t fixture_allocations(struct app_fixture *fixture);
/* The drifts of a node; kind NULL: of any kind. */
uint32_t fixture_drifts(struct app_fixture *fixture, const char *node, const char *kind);
/* The text contains this part. */
#define assert_says(text, part)                                                                    \
    do {                                                                                           \
        const char *const said = (text);                                                           \
        if (strstr(said, part) == NULL)                                                            \
            fail_msg("\"%s\" does not say \"%s\"", said, part);                                    \
    } while (0)
/* So many wake-ups within this time. */
#define assert_woken(fixture, ms, times)                                                           \
    do {                                                                                           \
        const uint32_t wake_ups_before = (fixture)->wake_ups;                                      \
        fixture_pass(fixture, ms);                                                                 \
        assert_int_equal((fixture)->wake_ups - wake_ups_before, times);                            \
    } while (0)
/* Runs, and compares fixture_taken(). */
#define assert_taken(fixture, node, milli)                                                         \
    do {                                                                                           \
        fixture_run(fixture);                                                                      \
        assert_int_equal(fixture_taken(fixture, node), milli);                                     \
    } while (0)

#endif
