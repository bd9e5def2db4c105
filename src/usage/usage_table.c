/*
 * The table of Nodes with an agent, and of their reports. The informer thread adds and drops Nodes,
 * the thread of the report listener merges and stores reports, other threads take references. In
 * order: nodes, reports, silent nodes, taking, reading.
 */
#include "milligpu/usage/usage_table.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"
#include "milligpu/usage/idle_changes.h"
#include "milligpu/usage/measured_sums.h"

#include "measured_amounts.h"

/* Limits of the search for silent nodes in one report: nodes visited, and nodes cleared. */
enum { SCAN_MAX = 1024, EVICT_MAX = 16 };

struct usage_node {
    uint64_t list;                   /* number of the last list that contained the Node */
    uint64_t number;                 /* of the last report */
    int64_t report_ms;               /* UTC time of the last report, also of the previous process */
    int64_t accounted_until_ms;      /* monotonic; usage is counted (or known lost) up to here */
    const struct measured *measured; /* a reference; NULL: no report */
    bool has_reported;               /* to this process */
    bool has_stored_idle;            /* a share's idle time is stored */
    char key[PUBLIC_KEY_TEXT_BYTES]; /* "": none */
    char name[];
};

struct usage_table {
    struct clock_ops clock;
    struct measured_sums *sums; /* has a lock of its own */
    struct idle_changes *idle;  /* has a lock of its own, which may be taken within lock */
    struct mutex lock;          /* guards everything below */
    struct map nodes;           /* struct usage_node, by name */
    uint64_t list;              /* number of the last list that began */
    uint64_t version;           /* usage_totals.version */
    int64_t last_ms;            /* UTC time of the last report; 0 if none */
    size_t looked_at;           /* map position at which the search for silent nodes continues */
};

static struct text name_of_usage_node(const void *value)
{
    const struct usage_node *node = value;
    must(node->name[0] != '\0');
    return text_of(node->name);
}

struct usage_table *usage_table_new(const struct clock_ops *clock)
{
    struct usage_table *table = xcalloc(1, sizeof *table);

    table->clock = *clock;
    table->sums = measured_sums_new();
    table->idle = idle_changes_new();
    mutex_init(&table->lock);
    map_init_keyed(&table->nodes, name_of_usage_node);
    return table;
}

static void usage_node_free(struct usage_node *node)
{
    measured_unref(node->measured);
    xfree(node);
}

static bool free_all(void *user, void *value)
{
    (void)user;
    usage_node_free(value);
    return false;
}

void usage_table_free(struct usage_table *table)
{
    if (table == NULL)
        return;
    (void)map_retain(&table->nodes, NULL, free_all);
    map_done(&table->nodes);
    measured_sums_free(table->sums);
    idle_changes_free(table->idle);
    mutex_done(&table->lock);
    xfree(table);
}

/* --- nodes --- */

void usage_table_list_begin(struct usage_table *table)
{
    mutex_lock(&table->lock);
    table->list++;
    mutex_unlock(&table->lock);
}

/* Removes the stored idle times of a node, which a restart would restore. */
static void forget_idle(struct usage_table *table, struct usage_node *node)
{
    const struct store_idle none = {.node = node->name, .uid = "", .container = "", .gpu = ""};

    if (node->has_stored_idle)
        must(idle_changes_put(table->idle, &none)); /* never refuses a node */
    node->has_stored_idle = false;
}

static bool is_listed(void *user, void *value)
{
    struct usage_table *table = user;
    struct usage_node *node = value;

    must(node->list <= table->list);
    if (node->list == table->list)
        return true;
    forget_idle(table, node);
    usage_node_free(node);
    return false;
}

void usage_table_list_end(struct usage_table *table)
{
    mutex_lock(&table->lock);
    table->version += map_retain(&table->nodes, table, is_listed);
    mutex_unlock(&table->lock);
}

/* A text longer than any key is none; a shorter one is, and is good for no signature. */
static bool is_key(const char *key)
{
    return key != NULL && key[0] != '\0' && strlen(key) < PUBLIC_KEY_TEXT_BYTES;
}

/* A new key resets the number: the agent was reinstalled and counts anew. "": no key. */
static void set_key(struct usage_node *node, const char *key)
{
    const size_t len = strlen(key);

    must(len < sizeof node->key);
    if (strcmp(node->key, key) == 0)
        return;
    memset(node->key, 0, sizeof node->key);
    memcpy(node->key, key, len);
    node->number = 0;
}

static struct usage_node *find_or_add(struct usage_table *table, const char *name, int64_t now_ms)
    REQUIRES(table->lock)
{
    struct usage_node *node = map_find(&table->nodes, text_of(name));

    must(name[0] != '\0');
    if (node == NULL) {
        node = xcalloc(1, sizeof *node + strlen(name) + 1);
        node->accounted_until_ms = now_ms;
        memcpy(node->name, name, strlen(name) + 1);
        must(map_put(&table->nodes, text_of(node->name), node) == NULL);
    }
    node->list = table->list;
    return node;
}

/*
 * A Node without a key. Its entry, if any, is dropped unless it has a report: without a key the
 * number of the last one is forgotten anyway, and a new entry counts no time before it.
 */
static void clear_key(struct usage_table *table, const char *name) REQUIRES(table->lock)
{
    struct usage_node *node = map_find(&table->nodes, text_of(name));

    if (node == NULL)
        return;
    set_key(node, "");
    node->list = table->list;
    if (node->measured != NULL)
        return;
    must(!node->has_stored_idle);
    (void)map_take(&table->nodes, text_of(name));
    usage_node_free(node);
}

void usage_table_node(struct usage_table *table, const char *name, const char *key)
{
    const int64_t now_ms = table->clock.now_ms(table->clock.ctx);

    mutex_lock(&table->lock);
    if (is_key(key))
        set_key(find_or_add(table, name, now_ms), key);
    else
        clear_key(table, name);
    mutex_unlock(&table->lock);
}

void usage_table_resume(struct usage_table *table, const char *name,
                        const struct measured *take_measured, int64_t reported_ms)
{
    const int64_t now_ms = table->clock.now_ms(table->clock.ctx);

    must(take_measured != NULL);
    mutex_lock(&table->lock);
    struct usage_node *node = find_or_add(table, name, now_ms);
    must(node->measured == NULL);
    node->measured = take_measured;
    node->report_ms = reported_ms;
    node->has_stored_idle = true;
    table->version++;
    mutex_unlock(&table->lock);
}

void usage_table_node_gone(struct usage_table *table, const char *name)
{
    mutex_lock(&table->lock);
    struct usage_node *node = map_take(&table->nodes, text_of(name));
    table->version += node != NULL;
    if (node != NULL)
        forget_idle(table, node);
    mutex_unlock(&table->lock);
    if (node != NULL)
        usage_node_free(node);
}

/* --- reports --- */

bool usage_table_key(struct usage_table *table, struct text node, char out[PUBLIC_KEY_TEXT_BYTES])
{
    mutex_lock(&table->lock);
    const struct usage_node *found = map_find(&table->nodes, node);
    const bool has_key = found != NULL && found->key[0] != '\0';
    if (has_key)
        memcpy(out, found->key, sizeof found->key);
    mutex_unlock(&table->lock);
    return has_key;
}

struct report_taking {
    struct usage_table *table;
    const struct measured_how *how;
    const struct measured *before;
    struct measured_amounts amounts;
};

/* Whole seconds; the fraction counts with the next report. */
static int64_t take_seconds(struct usage_node *node, uint32_t seconds, int64_t now_ms)
{
    const int64_t begin_ms = now_ms - (int64_t)seconds * 1000;

    if (node->accounted_until_ms < begin_ms)
        node->accounted_until_ms = begin_ms;
    const int64_t count =
        now_ms > node->accounted_until_ms ? (now_ms - node->accounted_until_ms) / 1000 : 0;
    node->accounted_until_ms += count * 1000;
    return count;
}

/* False: the Node is gone, its key has changed, or the number is not above the last one. */
static bool take_number(struct usage_table *table, const struct usage_report *report,
                        const char *key, struct report_taking *taking)
{
    const int64_t now_ms = table->clock.now_ms(table->clock.ctx);

    mutex_lock(&table->lock);
    struct usage_node *node = map_find(&table->nodes, report->node);
    const bool good = node != NULL && strcmp(node->key, key) == 0 && report->number > node->number;
    if (good) {
        node->number = report->number;
        taking->amounts.seconds = take_seconds(node, report->seconds, now_ms);
        taking->before = node->measured != NULL ? measured_ref(node->measured) : NULL;
    }
    mutex_unlock(&table->lock);
    return good;
}

static void take_fact(void *user, const struct measured_fact *fact)
{
    struct report_taking *taking = user;

    measured_amounts_add(&taking->amounts, fact);
    if (taking->how->fact != NULL)
        taking->how->fact(taking->how->user, fact);
}

static bool take_idle(void *user, const struct measured_idle *idle)
{
    const struct report_taking *taking = user;
    const struct allocation_facts *pod = &idle->allocation->facts;
    const struct store_idle change = {
        .node = pod->node->text,
        .uid = pod->uid,
        .container = idle->share->container,
        .gpu = idle->share->gpu->text,
        .since_ms = idle->since_ms,
    };

    return idle_changes_put(taking->table->idle, &change);
}

static void put_measured(struct usage_table *table, struct text name,
                         const struct measured *take_measured, int64_t now_ms)
{
    const struct measured *old = take_measured;

    mutex_lock(&table->lock);
    struct usage_node *node = map_find(&table->nodes, name);
    if (node != NULL) { /* the Node may be deleted meanwhile, or its key taken away */
        old = node->measured;
        node->measured = take_measured;
        node->report_ms = now_ms;
        node->has_reported = true;
        node->has_stored_idle = measured_keeps(take_measured);
        table->last_ms = now_ms;
        table->version++;
    }
    mutex_unlock(&table->lock);
    measured_unref(old);
}

/* --- silent nodes --- */

static void forget_silent(struct usage_table *table, int64_t now_ms)
{
    uint32_t forgotten = 0;

    mutex_lock(&table->lock);
    for (uint32_t i = 0; i < SCAN_MAX && forgotten < EVICT_MAX; i++) {
        struct usage_node *node = map_next(&table->nodes, &table->looked_at);
        if (node == NULL) {
            table->looked_at = 0;
            break;
        }
        if (!node->has_stored_idle || now_ms - node->report_ms <= MEASURED_FRESH_MS)
            continue;
        const struct measured *old = node->measured;
        forget_idle(table, node);
        node->measured = measured_without_idle(old);
        measured_unref(old);
        table->version++;
        forgotten++;
    }
    mutex_unlock(&table->lock);
}

/* --- taking --- */

bool usage_table_take(struct usage_table *table, const struct node *node, const char *key,
                      const struct usage_report *report, const struct measured_how *how,
                      uint32_t *out_unknown)
{
    struct report_taking taking = {
        .table = table,
        .how = how,
        .amounts = {.sums = table->sums, .node = node, .until_ms = how->now_ms},
    };
    const struct measured_how merging = {
        .now_ms = how->now_ms, .user = &taking, .fact = take_fact, .idle = take_idle};

    must(text_eq(atom_text(node->name), report->node));
    must(is_key(key));
    if (!take_number(table, report, key, &taking))
        return false;
    put_measured(table, report->node,
                 measured_merge(taking.before, node, report, &merging, out_unknown), how->now_ms);
    measured_amounts_end(&taking.amounts);
    metric_add(M_MEASURED_DROPPED, NULL, taking.amounts.dropped);
    measured_unref(taking.before);
    forget_silent(table, how->now_ms);
    return true;
}

struct measured_sums *usage_table_sums(struct usage_table *table)
{
    must(table->sums != NULL);
    return table->sums;
}

struct idle_changes *usage_table_idle(struct usage_table *table)
{
    must(table->idle != NULL);
    return table->idle;
}

/* --- reading --- */

const struct measured *usage_table_measured(struct usage_table *table, struct text node)
{
    mutex_lock(&table->lock);
    const struct usage_node *found = map_find(&table->nodes, node);
    const struct measured *measured =
        found != NULL && found->measured != NULL ? measured_ref(found->measured) : NULL;
    mutex_unlock(&table->lock);
    return measured;
}

void usage_table_totals(struct usage_table *table, int64_t now_ms, struct usage_totals *out)
{
    const struct usage_node *node;
    size_t place = 0;

    mutex_lock(&table->lock);
    *out = (struct usage_totals){.version = table->version, .last_ms = table->last_ms};
    while ((node = map_next(&table->nodes, &place)) != NULL) {
        out->reporting += node->has_reported && now_ms - node->report_ms <= MEASURED_FRESH_MS;
        out->shares += node->measured != NULL ? node->measured->n_shares : 0;
    }
    mutex_unlock(&table->lock);
}

int64_t usage_table_last(struct usage_table *table)
{
    mutex_lock(&table->lock);
    const int64_t last_ms = table->last_ms;
    mutex_unlock(&table->lock);
    return last_ms;
}

uint64_t usage_table_version(struct usage_table *table)
{
    mutex_lock(&table->lock);
    const uint64_t version = table->version;
    mutex_unlock(&table->lock);
    return version;
}
