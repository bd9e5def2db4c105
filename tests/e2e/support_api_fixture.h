/*
 * support_api_fixture - the application behind a real listener, in steps that the test makes.
 *
 * Real parts: store, writer, informer, outbox, webhooks, the fake API server, three listeners on
 * loopback. Writer and informer only run inside api_fixture_run(), so the state that a test sees
 * does not change between calls.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_API_FIXTURE_H
#define MILLIGPU_TESTS_SUPPORT_API_FIXTURE_H

#include "milligpu/admin/api.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/document/document.h"
#include "milligpu/kube/kube.h"
#include "milligpu/sync/informer.h"
#include "milligpu/webhook/webhooks.h"
#include "milligpu/writer/writer.h"

struct api_fixture {
    struct app app;
    struct app_parts parts;
    struct settings settings; /* a copy, which tests may change */
    struct settings_set *set;
    struct kube_ops watch_ops;
    struct kube_ops call_ops;
    struct http_server *admin;
    struct http_server *probe;
    struct http_server *scheduler;
    struct arena arena; /* for what a test reads */
    char folder[64];
    char ledger[96];
};

/* Three nodes: n1 with two A100 of 81920 MiB, n2 with one and a UUID, n3 with half of a T4. */
struct api_fixture *api_fixture_new(void);
void api_fixture_free(struct api_fixture *fixture);

/* Run until nothing changes any more. */
void api_fixture_run(struct api_fixture *fixture);

/* Send this to the API server; it must succeed. */
void api_fixture_tell(struct api_fixture *fixture, const char *method, const char *path,
                      const char *body);
void api_fixture_pod(struct api_fixture *fixture, const char *name, const char *amount,
                     const char *node);
/* A pod of the other resource, bound by somebody else: it runs, and holds whole GPUs. */
void api_fixture_whole_pod(struct api_fixture *fixture, const char *name, const char *gpus,
                           const char *node);
void api_fixture_end(struct api_fixture *fixture, const char *name);

/* As kube-scheduler: filter on all three nodes, and bind, which must succeed. */
void api_fixture_filter(struct api_fixture *fixture, const char *name);
void api_fixture_bind(struct api_fixture *fixture, const char *name, const char *node);

struct answer {
    int status;
    char type[80];
    char allow[40];
    struct strbuf head;
    struct strbuf body;
};

/* One request and its complete answer. body NULL: none; otherwise sent as application/json. */
void api_fixture_ask(const struct http_server *http, const char *method, const char *target,
                     const char *body, struct answer *out);
void answer_done(struct answer *answer);

/* Documents live as long as the fixture. A GET must be answered with 200 and JSON. */
const struct document *api_fixture_parse(struct api_fixture *fixture, const struct answer *answer);
const struct document *api_fixture_get(struct api_fixture *fixture, const char *target);
int64_t number_of(const struct document *object, const char *key); /* it must be there */

/*
 * Fails unless the document has these members, such as "items=2; items.0.name=web-0; continue=-".
 * A number selects an element; an array is compared by its length; "-" is an absent member.
 */
void document_shows(const struct document *document, const char *members);
const struct document *api_fixture_shows(struct api_fixture *fixture, const char *target,
                                         const char *members); /* of api_fixture_get() */

/* For cmocka: a test with a fixture of its own. */
int api_fixture_set_up(void **state);
int api_fixture_tear_down(void **state);
#define API_TEST(name)                                                                             \
    TEST_WITH(name, struct api_fixture *fixture, api_fixture_set_up, api_fixture_tear_down)

#endif
