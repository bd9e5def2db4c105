/*
 * The report listener: validates each call (form, node, signature, number), then merges the report
 * into the usage table. Called in the one thread of that listener, which never blocks on other
 * threads. In order: answers, Events, the report.
 */
#include "milligpu/admin/usage/reports.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/problem.h"
#include "milligpu/http/http.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/spine/event_budget.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/usage/usage_table.h"

/* Limits per minute; those per node keep a lying agent from using up the limit of all. */
enum {
    JOURNAL_PER_NODE = 60,
    JOURNAL_PER_MINUTE = 6000,
    EVENTS_PER_NODE = 6,
};

struct reports {
    struct app *app;
    struct node_budget events;
    struct node_budget journal;
    struct arena arena; /* reset after each call */
};

struct reports *reports_new(struct app *app)
{
    struct reports *reports = xcalloc(1, sizeof *reports);

    must(app->usage_table != NULL);
    reports->app = app;
    arena_init(&reports->arena);
    node_budget_init(&reports->events, EVENTS_PER_NODE, EVENTS_PER_MINUTE);
    node_budget_init(&reports->journal, JOURNAL_PER_NODE, JOURNAL_PER_MINUTE);
    return reports;
}

void reports_free(struct reports *reports)
{
    if (reports == NULL)
        return;
    arena_done(&reports->arena);
    node_budget_done(&reports->events);
    node_budget_done(&reports->journal);
    xfree(reports);
}

bool reports_takes_body(const char *method, const char *path)
{
    return strcmp(method, "POST") == 0 && strcmp(path, USAGE_PATH) == 0;
}

/* --- answers --- */

/* outcome: label of the metric; each refusal has its own. */
static void count_report(const char *outcome)
{
    must(outcome[0] != '\0');
    metric_add(M_REPORTS, LABEL_VALUES(outcome), 1);
}

/*
 * Closes the connection: each agent reports once in some minutes, so keeping thousands of
 * connections would cost more than the handshakes.
 */
static void answer_report(struct http_call *call, int status, struct strbuf *take_body)
{
    http_set_header(call, "Connection", "close");
    http_answer(call, status, status >= 400 ? PROBLEM_TYPE : NULL, take_body);
}

static void refuse_report(struct http_call *call, int status, const char *outcome, const char *fmt,
                          ...) PRINTF_LIKE(4, 5);
static void refuse_report(struct http_call *call, int status, const char *outcome, const char *fmt,
                          ...)
{
    char text[ERR_TEXT_MAX];
    struct strbuf body;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncated if too long */
    va_end(args);
    strbuf_init(&body);
    problem_encode(&body, status, NULL, text);
    count_report(outcome);
    log_write(LOG_DEBUG, "report refused", log_i64("status", status), log_str("why", text));
    answer_report(call, status, &body);
    strbuf_done(&body);
}

/* --- Events --- */

/* The Event's name depends only on container and kind, so there is one Event for each. */
static void report_over(struct reports *reports, const struct measured_fact *fact)
{
    const struct allocation_facts *pod = &fact->allocation->facts;
    const bool killed = fact->new_over == USAGE_OVER_KILLED;
    char name[UID_BYTES_MAX + NAME_BYTES_MAX + 64];
    char peak[64] = "";
    char text[512];

    if (fact->measured->peak_mib != USAGE_UNKNOWN)
        (void)snprintf(peak, sizeof peak, " (%d MiB)", fact->measured->peak_mib);
    (void)snprintf(text, sizeof text,
                   "container %.100s %s more memory of GPU %.100s%s than its %u MiB",
                   fact->share->container, killed ? "was ended because it held" : "holds",
                   fact->gpu->id->text, peak, fact->share->mib);
    (void)snprintf(name, sizeof name, "milligpu-memory-%s-%08x-%s", pod->uid,
                   (unsigned)text_hash_by(text_of(fact->share->container), 0),
                   usage_over_name(fact->new_over));
    const struct kube_event_facts facts = {
        .namespace = pod->namespace,
        .name = name,
        .kind = "Pod",
        .regarding = pod->name,
        .uid = pod->uid,
        .reason = "GPUMemoryOverShare",
        .action = killed ? "killed" : "seen",
        .note = text,
        .instance = "milligpud",
        .at_ms = fact->measured->at_ms,
        .warning = true,
    };
    log_write(LOG_WARN, "a container holds more memory than its share",
              log_str("namespace", pod->namespace), log_str("pod", pod->name),
              log_str("text", text));
    outbox_event(reports->app->outbox, &facts);
}

/*
 * Sends a journal entry through the writer. Beyond the limits, or if the queue has no spare room
 * for it, the entry is dropped and counted: a lying node must neither fill the journal nor delay
 * binds.
 */
static void note_over(struct reports *reports, const struct measured_fact *fact, int64_t now_ms)
{
    const struct allocation_facts *pod = &fact->allocation->facts;
    struct queue *queue = reports->app->queue;

    if (!node_budget_take(&reports->journal, atom_text(pod->node), now_ms) ||
        queue_depth(queue) >= QUEUE_MAX / 4) {
        metric_add(M_OVER_DROPPED, NULL, 1);
        return;
    }
    struct message *message = message_new(MESSAGE_OVER);
    struct arena *arena = &message->arena;
    message->over = (struct over_memory){
        .uid = arena_copy(arena, text_of(pod->uid)),
        .namespace = arena_copy(arena, text_of(pod->namespace)),
        .name = arena_copy(arena, text_of(pod->name)),
        .node = arena_copy(arena, atom_text(pod->node)),
        .container = arena_copy(arena, text_of(fact->share->container)),
        .gpu = arena_copy(arena, atom_text(fact->gpu->id)),
        .how = usage_over_name(fact->new_over),
        .mib = fact->share->mib,
        .peak_mib = fact->measured->peak_mib > 0 ? (uint32_t)fact->measured->peak_mib : 0,
    };
    if (!queue_put(queue, message)) {
        metric_add(M_OVER_DROPPED, NULL, 1);
        message_free(message);
    }
}

static void take_share(void *user, const struct measured_fact *fact)
{
    struct reports *reports = user;
    const struct app *app = reports->app;

    if (fact->new_over == USAGE_OVER_NOT)
        return;
    const int64_t now_ms = app->clock.now_ms(app->clock.ctx);
    note_over(reports, fact, now_ms);
    if (atomic_load(&app->settings)->events &&
        node_budget_take(&reports->events, atom_text(fact->allocation->facts.node), now_ms))
        report_over(reports, fact);
}

/* --- the report --- */

/*
 * Refuses a report of a Node without a key. The snapshot says whether the Node exists, and shows a
 * change a moment after the usage table: until then a new Node without a key is unknown, and a
 * deleted one has no key. Either way the agent retries.
 */
static void refuse_keyless(struct http_call *call, struct text name, const struct node *node)
{
    if (node == NULL || node->gone)
        refuse_report(call, 404, "unknown_node", "there is no Node \"%.*s\"", TEXT_ARG(name));
    else
        refuse_report(call, 401, "no_key",
                      "the annotation milligpu.io/agent of Node %.*s does not (yet) carry a key",
                      TEXT_ARG(name));
}

/*
 * True if the report is signed with the key that its Node shows; otherwise answers the call. node:
 * from the snapshot; NULL: none.
 */
static bool is_of_its_node(const struct reports *reports, struct http_call *call,
                           const struct usage_report *report, const struct node *node,
                           char key[PUBLIC_KEY_TEXT_BYTES])
{
    const char *signature = http_header(call, USAGE_HEADER);
    const struct signed_facts facts = {
        .node = report->node, .bytes = http_body(call), .kind = SIGNED_USAGE};

    if (!usage_table_key(reports->app->usage_table, report->node, key)) {
        refuse_keyless(call, report->node, node);
        return false;
    }
    if (signature_is_good(text_of(key), text_of(signature), &facts))
        return true;
    refuse_report(call, 401, "bad_signature",
                  "the header " USAGE_HEADER
                  " is no signature (v1:KEYID:BASE64) over this node and "
                  "body by the key that the annotation milligpu.io/agent of Node %.*s carries now",
                  TEXT_ARG(report->node));
    return false;
}

static void take_report(struct reports *reports, struct http_call *call,
                        const struct usage_report *report)
{
    struct app *app = reports->app;
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(app->view);
    const struct node *node = snapshot != NULL ? snapshot_node(snapshot, report->node) : NULL;
    const struct measured_how how = {
        .now_ms = app->clock.wall_ms(app->clock.ctx), .user = reports, .fact = take_share};
    char key[PUBLIC_KEY_TEXT_BYTES];
    struct strbuf empty;
    uint32_t unknown = 0;

    if (!is_of_its_node(reports, call, report, node, key))
        return;
    if (node == NULL) {
        refuse_report(call, 404, "unknown_node", "the ledger does not know Node %.*s",
                      TEXT_ARG(report->node));
        return;
    }
    if (!usage_table_take(app->usage_table, node, key, report, &how, &unknown)) {
        refuse_report(call, 409, "replayed",
                      "report.number: %llu is not above that of the last report of this node",
                      (unsigned long long)report->number);
        return;
    }
    count_report("taken");
    metric_add(M_REPORT_PODS_DROPPED, NULL, unknown);
    strbuf_init(&empty);
    answer_report(call, 204, &empty);
    strbuf_done(&empty);
}

static void read_report(struct reports *reports, struct http_call *call)
{
    const struct app *app = reports->app;
    struct usage_report report;
    struct err err;

    if (usage_report_decode(http_body(call), &reports->arena, &report, &err) < 0)
        refuse_report(call, err_status(err.code), "malformed", "%s", err.text);
    else if (!atomic_load(&app->watch.nodes_synced) || !atomic_load(&app->watch.pods_synced))
        refuse_report(call, 503, "unready", "the lists of nodes and pods are not complete yet");
    else
        take_report(reports, call, &report);
    arena_trim(&reports->arena, USAGE_BODY_BYTES_MAX);
}

void reports_handle(struct reports *reports, struct http_call *call)
{
    must(reports->app != NULL);
    if (strcmp(http_path(call), USAGE_PATH) != 0) {
        refuse_report(call, 404, "malformed", "this listener serves " USAGE_PATH " only");
    } else if (strcmp(http_method(call), "POST") != 0) {
        http_set_header(call, "Allow", "POST");
        refuse_report(call, 405, "malformed", USAGE_PATH " takes POST only");
    } else {
        read_report(reports, call);
    }
}
