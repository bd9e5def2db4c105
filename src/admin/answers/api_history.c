/*
 * Handlers that read the database: history, released allocations, backup. Called by the router in
 * an admin thread, each with a read-only connection of its own, so that the writer never waits for
 * them if the ledger is a file. They can take seconds on a slow disk; the two admin threads limit
 * how many run at once. Rows come newest first, by a constant number: `continue` is the number of
 * the last row that was scanned, so rows written in between shift no page.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/http/http.h"
#include "milligpu/run/metric.h"

#include "admin/api_internal.h"

enum {
    SCAN_ROWS = 1000, /* rows of one query */
    SCAN_LOOKS = 20,  /* limit of queries for one page; the page is short if it is reached */
    BACKUP_MIB_MAX = 256,
    OVER_EVENTS_MAX = 100, /* events of one row */
};

/* Copies of rows, which outlive the store's callback. */
struct past_rows {
    struct api_call *call;
    struct history_row *row;
    size_t count;
    size_t capacity;
};

/* Copies the texts of the row, which SQLite keeps only until the next step, into the arena. */
static void api_history_keep(void *user, const struct history_row *row)
{
    struct past_rows *past = user;
    struct arena *arena = &past->call->arena;

    must(row->uid != NULL && row->state != NULL);
    past->row = xgrow(past->row, past->count, &past->capacity, sizeof *past->row);

    struct history_row *kept = &past->row[past->count++];
    *kept = *row;
    kept->uid = arena_copy(arena, text_of(row->uid));
    kept->namespace = arena_copy(arena, text_of(row->namespace));
    kept->name = arena_copy(arena, text_of(row->name));
    kept->node = arena_copy(arena, text_of(row->node));
    kept->node_uid = arena_copy(arena, text_of(row->node_uid));
    kept->gpu = arena_copy(arena, text_of(row->gpu));
    kept->state = arena_copy(arena, text_of(row->state));
}

static void past_done(struct past_rows *past)
{
    xfree(past->row);
    past->count = 0;
}

/* Reads the token of a history page: the number of the last row. */
static bool read_before(struct api_call *call, uint64_t *out)
{
    uint64_t row = 0;

    must(call->status < 400);
    *out = 0;
    if (call->after == NULL)
        return true;
    for (const char *at = call->after; *at >= '0' && *at <= '9' && row < UINT64_MAX / 10 - 1; at++)
        row = row * 10 + (uint64_t)(*at - '0');
    *out = row;
    if (row > 0 && strspn(call->after, "0123456789") == strlen(call->after))
        return true;
    api_fail(call, 400, "continue is of another list: give back what the last answer said");
    return false;
}

static void put_continue(struct api_call *call, struct json_writer *json, uint64_t row)
{
    must(row > 0);
    api_continue(json, arena_printf(&call->arena, "%llu", (unsigned long long)row));
}

/* --- who held it --- */

/* The name of a GPU in the history; the store also looks for its alias. */
struct gpu_names {
    const char *node; /* NULL for any node */
    const char *id;
};

/*
 * Compares three names of a GPU: its id, NODE/id, and the alias "<node>/gpu-<index>", which
 * contains a slash itself and is compared as a whole.
 */
static bool is_gpu(const struct node *node, const struct gpu *gpu, const char *asked)
{
    const size_t name = node->name->len;
    const bool prefixed = strncmp(asked, node->name->text, name) == 0 && asked[name] == '/';
    const char *rest = prefixed ? asked + name + 1 : asked;

    must(gpu->id->len > 0);
    return strcmp(gpu->id->text, asked) == 0 || strcmp(gpu->id->text, rest) == 0 ||
           gpu_alias_is(gpu, node->name, text_of(asked));
}

/* Searches the present nodes: ids made from an index contain a slash, too, so form is no guide. */
static bool api_history_find_gpu(struct api_call *call, const char *asked, struct gpu_names *out)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(call->app->view);
    struct arena *arena = &call->arena;
    const struct node *node;

    must(asked != NULL);
    if (snapshot == NULL)
        return false;
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus; i++) {
            const struct gpu *gpu = &node->gpu[i];
            if (!is_gpu(node, gpu, asked))
                continue;
            /* An id alone means the GPU on any node; NODE/id and an alias mean this node. */
            const bool named = strcmp(gpu->id->text, asked) != 0;
            out->node = named ? arena_copy(arena, atom_text(node->name)) : NULL;
            out->id = arena_copy(arena, atom_text(gpu->id));
            return true;
        }
    return false;
}

/* Parses the name of an absent GPU: "n1/gpu-0" is an id made of an index, "n1/GPU-5f.." NODE/id. */
static void guess_gpu(struct api_call *call, const char *asked, struct gpu_names *out)
{
    const char *slash = strchr(asked, '/');

    must(asked[0] != '\0');
    *out = (struct gpu_names){.id = asked};
    if (slash == NULL || strncmp(slash, "/gpu-", strlen("/gpu-")) == 0)
        return;
    const struct text node = {asked, (size_t)(slash - asked)};
    out->node = arena_copy(&call->arena, node);
    out->id = slash + 1;
}

/* 0 means no time, so earlier times become 1 ms; nothing was held before 1970. */
static int64_t read_at(const struct api_call *call)
{
    const char *at = call->value[PARAMETER_at];
    int64_t ms = 0;

    if (at == NULL)
        return 0;
    must(api_time_read(at, &ms));
    return ms > 0 ? ms : 1;
}

/* --- memory over a share --- */

/* The row of this pod and GPU, else the pod's first row, which can have another name of the GPU. */
static struct history_row *row_of_over(const struct past_rows *past,
                                       const struct history_over_event *over)
{
    struct history_row *first = NULL;

    must(over->uid != NULL && over->gpu != NULL);
    for (size_t i = 0; i < past->count; i++) {
        struct history_row *row = &past->row[i];
        if (strcmp(row->uid, over->uid) != 0)
            continue;
        if (strcmp(row->gpu, over->gpu) == 0)
            return row;
        if (first == NULL)
            first = row;
    }
    return first;
}

/* Drops the oldest events beyond OVER_EVENTS_MAX. */
static void keep_over(void *user, const struct history_over_event *over)
{
    struct past_rows *past = user;
    struct arena *arena = &past->call->arena;
    struct history_row *row = row_of_over(past, over);

    if (row == NULL || row->n_over_events >= OVER_EVENTS_MAX)
        return;
    struct history_over_event *list = (struct history_over_event *)(uintptr_t)row->over_event;
    if (list == NULL)
        row->over_event = list = arena_alloc(arena, OVER_EVENTS_MAX * sizeof *list);
    struct history_over_event *kept = &list[row->n_over_events++];
    *kept = *over;
    kept->uid = row->uid;
    kept->container = arena_copy(arena, text_of(over->container));
    kept->gpu = arena_copy(arena, text_of(over->gpu));
    kept->how = arena_copy(arena, text_of(over->how));
}

static bool look_for_over_events(struct past_rows *past, const struct store_history_query *asked)
{
    const struct store_over_events_query query = {.namespace = asked->namespace, .pod = asked->pod};
    struct err err;

    for (size_t i = 0; i < past->count; i++)
        past->row[i].has_over_events = true;
    if (past->count == 0 ||
        store_over_events(past->call->app->store, &query, past, keep_over, &err) == 0)
        return true;
    api_fail_err(past->call, &err);
    return false;
}

/* --- whose history --- */

static void write_rows(struct api_call *call, const struct past_rows *past)
{
    const size_t shown = past->count < call->limit ? past->count : call->limit;
    struct json_writer json;

    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_key(&json, "items");
    json_write_array(&json);
    for (size_t i = 0; i < shown; i++) {
        must(i == 0 || past->row[i].row < past->row[i - 1].row);
        admin_history(&json, &past->row[i]);
    }
    json_write_array_end(&json);
    if (shown < past->count)
        put_continue(call, &json, past->row[shown - 1].row);
    json_write_object_end(&json);
}

static bool api_history_look(struct past_rows *past, const struct store_history_query *query)
{
    struct err err;

    must(query->limit > 0);
    if (store_history(past->call->app->store, query, past, api_history_keep, &err) == 0)
        return true;
    api_fail_err(past->call, &err);
    return false;
}

/* Without a snapshot, the name is parsed by its form alone. */
static bool look_for_gpu(struct past_rows *past, struct store_history_query *query,
                         const char *asked)
{
    struct gpu_names names = {0};

    if (!api_history_find_gpu(past->call, asked, &names))
        guess_gpu(past->call, asked, &names);
    must(names.id != NULL);
    query->node = names.node;
    query->gpu = names.id;
    return api_history_look(past, query);
}

static bool look_for_pod(struct past_rows *past, struct store_history_query *query,
                         const char *asked)
{
    const char *slash = strchr(asked, '/');

    must(query->gpu == NULL && slash != NULL); /* the schema has been checked */
    const struct text namespace = {asked, (size_t)(slash - asked)};
    query->namespace = arena_copy(&past->call->arena, namespace);
    query->pod = slash + 1;
    return api_history_look(past, query) && look_for_over_events(past, query);
}

void api_history(struct api_call *call)
{
    const char *gpu = call->value[PARAMETER_gpu];
    const char *pod = call->value[PARAMETER_pod];
    /* One row more than is shown, to find out whether there is a next page. */
    struct store_history_query query = {.limit = call->limit + 1};
    struct past_rows past = {.call = call};

    must(call->limit > 0);
    if ((gpu == NULL) == (pod == NULL)) {
        api_fail(call, 400,
                 "say whose history: gpu=ID (or NODE/ID), or pod=NAMESPACE/NAME, and not both");
        return;
    }
    query.at_ms = read_at(call);
    if (!read_before(call, &query.before))
        return;
    if (gpu != NULL ? look_for_gpu(&past, &query, gpu) : look_for_pod(&past, &query, pod))
        write_rows(call, &past);
    past_done(&past);
}

/* Rows of one allocation are adjacent, so the newest allocation ends at the first other uid. */
int api_history_last(struct api_call *call, const char *namespace, const char *name,
                     struct history_row row[GPUS_PER_NODE_MAX], size_t *out_rows, struct err *err)
{
    const struct store_history_query query = {
        .namespace = namespace, .pod = name, .limit = GPUS_PER_NODE_MAX};
    struct past_rows past = {.call = call};
    size_t rows = 0;

    must(namespace != NULL && name != NULL);
    const int failed = store_history(call->app->store, &query, &past, api_history_keep, err);
    if (failed == 0)
        while (rows < past.count && rows < GPUS_PER_NODE_MAX &&
               strcmp(past.row[rows].uid, past.row[0].uid) == 0) {
            row[rows] = past.row[rows];
            rows++;
        }
    past_done(&past);
    *out_rows = rows;
    return failed;
}

/* --- released allocations --- */

/* Filters here and not in SQL, because the store's query is by GPU or by pod. */
static bool api_history_is_wanted(const struct api_call *call, const struct history_row *row)
{
    const char *node = call->value[PARAMETER_node];
    const char *namespace = call->value[PARAMETER_namespace];

    must(row->node != NULL && row->namespace != NULL);
    return strcmp(row->state, "released") == 0 && (node == NULL || strcmp(node, row->node) == 0) &&
           (namespace == NULL || strcmp(namespace, row->namespace) == 0);
}

/* The number of adjacent rows, from this one on, that belong to its allocation. */
static size_t api_history_span(const struct past_rows *past, size_t from)
{
    const struct history_row *first = &past->row[from];
    size_t count = 1;

    must(from < past->count);
    while (from + count < past->count && strcmp(past->row[from + count].uid, first->uid) == 0 &&
           past->row[from + count].released_ms == first->released_ms)
        count++;
    return count;
}

/*
 * Writes the complete allocations of one query and returns their number. *before moves behind the
 * last row that was read, where the next query begins.
 */
static size_t write_released(struct json_writer *json, struct api_call *call,
                             const struct past_rows *past, size_t room, uint64_t *before)
{
    const bool last = past->count < SCAN_ROWS;
    size_t written = 0;

    for (size_t at = 0; at < past->count && written < room;) {
        const size_t rows = api_history_span(past, at);
        if (at + rows == past->count && !last && at > 0)
            break; /* possibly cut in the middle; left to the next query */
        if (api_history_is_wanted(call, &past->row[at])) {
            admin_released(json, &past->row[at], rows);
            written++;
        }
        at += rows;
        must(*before == 0 || past->row[at - 1].row < *before);
        *before = past->row[at - 1].row;
    }
    return written;
}

/*
 * Scans the history from the newest row, with at most SCAN_LOOKS queries for one page, so a filter
 * that matches nothing takes bounded time. Such a page can be short or empty and still have a
 * `continue`.
 */
void api_allocations_released(struct api_call *call)
{
    struct store_history_query query = {.limit = SCAN_ROWS};
    struct past_rows past = {.call = call};
    size_t written = 0;
    bool more = true;
    struct json_writer json;

    must(call->limit > 0);
    if (!read_before(call, &query.before))
        return;
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_key(&json, "items");
    json_write_array(&json);
    for (int i = 0; i < SCAN_LOOKS && more && written < call->limit; i++) {
        past.count = 0;
        if (!api_history_look(&past, &query)) {
            past_done(&past);
            return;
        }
        more = past.count > 0;
        written += write_released(&json, call, &past, call->limit - written, &query.before);
    }
    json_write_array_end(&json);
    if (more)
        put_continue(call, &json, query.before);
    json_write_object_end(&json);
    past_done(&past);
}

/* --- backup --- */

/*
 * Makes a folder beside the ledger, because a disk with room for the ledger also has room for its
 * copy. If this process is killed, the next start finds the folder by its name and removes it.
 */
static int api_history_make_folder(const char *ledger, char *out, size_t bytes, struct err *err)
{
    const bool in_memory = strcmp(ledger, ":memory:") == 0;

    must(bytes > 0);
    const int used =
        snprintf(out, bytes, "%s.part-XXXXXX", in_memory ? "/tmp/milligpu-ledger.db" : ledger);
    if (used < 0 || (size_t)used >= bytes)
        return err_set(err, ERR_IO, "the ledger's path is too long for a copy beside it");
    if (mkdtemp(out) == NULL)
        return err_set(err, ERR_IO, "no folder for the copy can be made as %s: errno %d", out,
                       errno);
    return 0;
}

/*
 * Unlinks the copy while it is open: its space is freed whenever the connection ends, also if the
 * daemon is killed while sending.
 */
static int copy_through(struct api_call *call, const char *folder, struct err *err)
{
    char file[4096];
    const int used = snprintf(file, sizeof file, "%s/ledger.db", folder);

    must(used > 0 && (size_t)used < sizeof file);
    int rc = store_backup(call->app->store, file, err);
    if (rc == 0)
        call->file = open(file, O_RDONLY | O_CLOEXEC);
    if (rc == 0 && call->file < 0)
        rc = err_set(err, ERR_IO, "the copy cannot be read: errno %d", errno);
    (void)unlink(file); /* absent if the copy failed; the open descriptor stays readable */
    return rc;
}

/*
 * A copy occupies as much disk as the ledger, and an admin thread while it is made. The limit keeps
 * large copies off TCP, where a slow peer would hold both; the Unix socket has its own threads.
 */
void api_backup(struct api_call *call)
{
    struct store_facts facts;
    struct err err;
    char folder[3800];

    int rc = store_facts(call->app->store, &facts, &err);
    if (rc == 0 && (facts.bytes + facts.wal_bytes) / 1048576 > BACKUP_MIB_MAX &&
        !http_over_socket(call->http)) {
        api_fail(call, 413,
                 "the ledger has more than %d MiB: copy it on its own machine, by milligpuctl "
                 "--server unix:PATH (setting admin_socket), or by sqlite3 %.300s '.backup FILE'",
                 BACKUP_MIB_MAX, facts.path);
        return;
    }
    if (rc == 0)
        rc = api_history_make_folder(facts.path, folder, sizeof folder, &err);
    if (rc == 0) {
        rc = copy_through(call, folder, &err);
        (void)rmdir(folder); /* normally empty; a folder that stays does no harm */
    }
    must(rc <= 0);
    if (rc < 0) {
        (void)err_wrap(&err, "backup");
        api_fail_err(call, &err);
        return;
    }
    metric_set(M_BACKUP, NULL, call->app->clock.wall_ms(call->app->clock.ctx) / 1000);
    http_set_header(call->http, "Content-Disposition", "attachment; filename=\"ledger.db\"");
}
