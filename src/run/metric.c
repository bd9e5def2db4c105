/*
 * Stores the counters, gauges and histograms of metrics.def and node_metrics.def, and writes them
 * as text. Any thread may count; the metrics page reads. Values are atomics, so counting takes no
 * lock; one lock guards the creation of a series. A series is never freed, so its address stays
 * valid. A metric has at most METRIC_SERIES_MAX series; further label values count as other. The
 * page reads the parts of a histogram one by one, and expose_histogram() makes them consistent.
 */
#include "milligpu/run/metric.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/mutex.h"

static const struct metric_info infos[] = {
#define METRIC(id, name, type, labels, help) {name, type, labels, help},
#define VALUE(id, value)                     {.labels = (value)},
#include "milligpu/run/metrics.def"
#include "milligpu/run/node_metrics.def"
#undef METRIC
#undef VALUE
};

/*
 * Upper bounds of buckets. Seconds: from 50 us, a fast filter call, to 10 s, longer than any
 * timeout. Counts: powers of two up to the largest batch.
 */
static const int64_t seconds_ns[] = {50000,      100000,     250000,    500000,     1000000,
                                     2500000,    5000000,    10000000,  25000000,   50000000,
                                     100000000,  250000000,  500000000, 1000000000, 2500000000,
                                     5000000000, 10000000000};
static const uint64_t counts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

enum { BUCKETS_MAX = ARRAY_LEN(seconds_ns), LABELS_MAX = 4 };

static_assert(ARRAY_LEN(counts) <= BUCKETS_MAX, "one bucket array serves both kinds");

struct series {
    /* Set once, before the series is visible. */
    char *labels;
    char *label_value[LABELS_MAX]; /* as the first caller gave them; NULL behind the last */
    atomic_int_fast64_t value;     /* of a counter or gauge */
    /* Only for histograms. */
    atomic_uint_fast64_t count;
    atomic_uint_fast64_t sum;                 /* nanoseconds for METRIC_TIMING */
    atomic_uint_fast64_t bucket[BUCKETS_MAX]; /* counts per bucket, not cumulative */
};

struct family {
    atomic_size_t used;
    struct series *_Atomic series[METRIC_SERIES_MAX];
};

static struct family families[METRICS];
static struct mutex adding = MUTEX_INITIALIZER; /* guards the creation of a series */

const struct metric_info *metric_info(enum metric_id id)
{
    must((size_t)id < ARRAY_LEN(infos));
    return &infos[id];
}

static bool is_value(enum metric_id id)
{
    return id < METRICS && infos[id].name == NULL;
}

/* Returns the metric of a VALUE; for other rows, the row itself. */
static enum metric_id metric_of(enum metric_id id)
{
    must((size_t)id < METRICS);
    while (is_value(id))
        id--;
    return id;
}

/* Writes NAME="VALUE" for each label of the table, with commas. JSON escapes suit Prometheus. */
static void put_labels(struct strbuf *out, enum metric_id id, const struct label_values *values)
{
    const size_t count = values != NULL ? values->count : 0;
    const char *label = infos[id].labels;
    CLEANUP(strbuf_done) struct strbuf clean;

    strbuf_init(&clean);
    for (size_t i = 0; i < count; i++) {
        const size_t len = strcspn(label, ",");
        must(len > 0); /* else there are more values than labels */
        strbuf_reset(&clean);
        strbuf_shown(&clean, text_of(values->value[i]));
        strbuf_printf(out, "%s%.*s=", i > 0 ? "," : "", (int)len, label);
        strbuf_json(out, (struct text){clean.data, clean.len});
        label += label[len] == ',' ? len + 1 : len;
    }
    must(label[0] == '\0'); /* else there are fewer values than labels */
}

static bool has_values(const struct series *series, const struct label_values *values)
{
    const size_t count = values != NULL ? values->count : 0;

    if (count > LABELS_MAX || (count < LABELS_MAX && series->label_value[count] != NULL))
        return false;
    for (size_t i = 0; i < count; i++)
        if (series->label_value[i] == NULL || strcmp(series->label_value[i], values->value[i]) != 0)
            return false;
    return true;
}

/*
 * Finds a series by its values, the usual case, or by its text if labels is given: values that
 * differ may have the same text. Needs no lock: used grows only after the series is complete.
 * Linear, because a metric has few series.
 */
static struct series *metric_find(struct family *family, const struct label_values *values,
                                  const char *labels)
{
    const size_t used = atomic_load(&family->used);

    must(used <= METRIC_SERIES_MAX);
    for (size_t i = 0; i < used; i++) {
        struct series *series = atomic_load(&family->series[i]);
        if (labels != NULL ? strcmp(series->labels, labels) == 0 : has_values(series, values))
            return series;
    }
    return NULL;
}

/* Labels of the last series, which all further label values share. */
static char *metric_others(enum metric_id id)
{
    const char *const other[LABELS_MAX] = {[0 ... LABELS_MAX - 1] = "other"};
    struct label_values values = {other, 1};
    struct strbuf text;

    for (const char *at = infos[id].labels; (at = strchr(at, ',')) != NULL; at++)
        values.count++;
    must(values.count <= LABELS_MAX);
    strbuf_init(&text);
    put_labels(&text, id, &values);
    return strbuf_steal(&text);
}

/* Stores the series before the count, so that it is visible only when complete. */
static struct series *metric_add_series(enum metric_id id, const char *labels,
                                        const struct label_values *values) REQUIRES(adding)
{
    struct family *family = &families[id];
    const size_t at = atomic_load(&family->used);

    must(at < METRIC_SERIES_MAX);
    struct series *series = xcalloc(1, sizeof *series);
    series->labels = at < METRIC_SERIES_MAX - 1 ? xstrdup(labels) : metric_others(id);
    for (size_t i = 0; values != NULL && i < values->count && i < LABELS_MAX; i++)
        series->label_value[i] = xstrdup(values->value[i]);
    atomic_store(&family->series[at], series);
    atomic_store(&family->used, at + 1);
    return series;
}

/* Adds all VALUEs of a metric at once, in the order of the table. */
static void add_values(enum metric_id id)
{
    CLEANUP(strbuf_done) struct strbuf labels;

    strbuf_init(&labels);
    mutex_lock(&adding);
    for (enum metric_id at = id + 1; is_value(at); at++) {
        if (atomic_load(&families[id].used) >= at - id)
            continue;
        strbuf_reset(&labels);
        put_labels(&labels, id, LABEL_VALUES(infos[at].labels));
        (void)metric_add_series(id, labels.data, LABEL_VALUES(infos[at].labels));
    }
    mutex_unlock(&adding);
}

static struct series *value_series(enum metric_id id)
{
    const enum metric_id metric = metric_of(id);

    must(metric < id);
    if (atomic_load(&families[metric].used) < id - metric)
        add_values(metric);
    return atomic_load(&families[metric].series[id - metric - 1]);
}

/* Finds or adds the series of a label text. */
static struct series *series_of_text(enum metric_id id, const struct label_values *values)
{
    struct family *family = &families[id];
    CLEANUP(strbuf_done) struct strbuf labels;

    strbuf_init(&labels);
    put_labels(&labels, id, values);
    mutex_lock(&adding);
    struct series *series = metric_find(family, values, labels.data);
    if (series == NULL)
        series = atomic_load(&family->used) < METRIC_SERIES_MAX
                     ? metric_add_series(id, labels.data, values)
                     : atomic_load(&family->series[METRIC_SERIES_MAX - 1]);
    mutex_unlock(&adding);
    return series;
}

/* Takes no lock in the usual case, values that were counted before. */
static struct series *series_of(enum metric_id id, const struct label_values *values)
{
    must((size_t)id < METRICS);
    if (is_value(id) && values == NULL)
        return value_series(id);
    must(!is_value(id) && !is_value(id + 1));
    struct series *series = metric_find(&families[id], values, NULL);
    return series != NULL ? series : series_of_text(id, values);
}

void metric_add(enum metric_id id, const struct label_values *values, uint64_t by)
{
    must(infos[metric_of(id)].type == METRIC_COUNTER);
    atomic_fetch_add(&series_of(id, values)->value, (int_fast64_t)by);
}

void metric_set(enum metric_id id, const struct label_values *values, int64_t value)
{
    must(infos[metric_of(id)].type == METRIC_GAUGE);
    atomic_store(&series_of(id, values)->value, value);
}

int64_t metric_value(enum metric_id id)
{
    const enum metric_type type = infos[metric_of(id)].type;

    must(type == METRIC_COUNTER || type == METRIC_GAUGE);
    return atomic_load(&series_of(id, NULL)->value);
}

void metric_observe_ns(enum metric_id id, const struct label_values *values, int64_t ns)
{
    must(metric_info(id)->type == METRIC_TIMING);
    must(ns >= 0);

    struct series *series = series_of(id, values);
    size_t at = 0;
    while (at < ARRAY_LEN(seconds_ns) && ns > seconds_ns[at])
        at++;
    if (at < ARRAY_LEN(seconds_ns))
        atomic_fetch_add(&series->bucket[at], 1);
    /* count is last, so it may lag behind the buckets (expose_histogram()). */
    atomic_fetch_add(&series->sum, (uint_fast64_t)ns);
    atomic_fetch_add(&series->count, 1);
}

void metric_observe(enum metric_id id, const struct label_values *values, uint64_t value)
{
    must(metric_info(id)->type == METRIC_HISTOGRAM);

    struct series *series = series_of(id, values);
    size_t at = 0;
    while (at < ARRAY_LEN(counts) && value > counts[at])
        at++;
    if (at < ARRAY_LEN(counts))
        atomic_fetch_add(&series->bucket[at], 1);
    atomic_fetch_add(&series->sum, (uint_fast64_t)value);
    atomic_fetch_add(&series->count, 1);
}

void metric_each(enum metric_id id, void *user,
                 void (*visit)(void *user, const char *labels, int64_t value))
{
    const enum metric_type type = metric_info(id)->type;
    const size_t used = atomic_load(&families[id].used);

    must(type == METRIC_COUNTER || type == METRIC_GAUGE);
    for (size_t i = 0; i < used; i++) {
        const struct series *series = atomic_load(&families[id].series[i]);
        visit(user, series->labels, atomic_load(&series->value));
    }
}

static const char *metric_type_name(enum metric_type type)
{
    static const char *const names[] = {"counter",   "gauge",   "histogram",
                                        "histogram", "counter", "gauge"};

    must((size_t)type < ARRAY_LEN(names));
    return names[type];
}

static bool metric_ends(struct text name, const char *end)
{
    const size_t len = strlen(end);

    must(len > 0);
    return name.len > len && memcmp(name.at + name.len - len, end, len) == 0;
}

/* OpenMetrics: a counter's name has no _total, but its samples have, and there is a UNIT line. */
void metric_head(struct strbuf *out, enum metric_id id, enum metric_format format)
{
    static const char *const units[] = {"seconds", "bytes"};
    const struct metric_info *info = metric_info(id);
    const char *type = metric_type_name(info->type);
    struct text name = text_of(info->name);

    if (format == METRIC_OPEN && strcmp(type, "counter") == 0) {
        must(metric_ends(name, "_total"));
        name.len -= strlen("_total");
    }
    strbuf_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", TEXT_ARG(name), info->help,
                  TEXT_ARG(name), type);
    for (size_t i = 0; format == METRIC_OPEN && i < ARRAY_LEN(units); i++)
        if (metric_ends(name, units[i]))
            strbuf_printf(out, "# UNIT %.*s %s\n", TEXT_ARG(name), units[i]);
}

void metric_end(struct strbuf *out, enum metric_format format)
{
    must(out != NULL);
    if (format == METRIC_OPEN)
        strbuf_str(out, "# EOF\n");
}

/* Writes a sample up to the number. */
static void put_name(struct strbuf *out, enum metric_id id, const struct label_values *values)
{
    strbuf_str(out, metric_info(id)->name);
    if (values != NULL)
        strbuf_char(out, '{');
    put_labels(out, id, values);
    strbuf_str(out, values != NULL ? "} " : " ");
}

void metric_sample(struct strbuf *out, enum metric_id id, const struct label_values *values,
                   uint64_t number)
{
    put_name(out, id, values);
    strbuf_printf(out, "%llu\n", (unsigned long long)number);
}

void metric_sample_milli(struct strbuf *out, enum metric_id id, const struct label_values *values,
                         uint64_t milli)
{
    put_name(out, id, values);
    strbuf_printf(out, "%llu.%03llu\n", (unsigned long long)(milli / 1000),
                  (unsigned long long)(milli % 1000));
}

/* count is cumulative: this bucket and all below it. */
static void expose_bucket(struct strbuf *out, enum metric_id id, const struct series *series,
                          const char *bound, uint64_t count)
{
    must(bound[0] != '\0');
    strbuf_printf(out, "%s_bucket{%s%sle=\"%s\"} %llu\n", metric_info(id)->name, series->labels,
                  series->labels[0] != '\0' ? "," : "", bound, (unsigned long long)count);
}

/* Converts ns to seconds. OpenMetrics requires a point or an exponent: 1.0, 5e-05. */
static void write_bound(char *out, size_t bytes, bool seconds, size_t at, enum metric_format format)
{
    must(at < (seconds ? ARRAY_LEN(seconds_ns) : ARRAY_LEN(counts)));
    if (seconds)
        (void)snprintf(out, bytes, "%g", (double)seconds_ns[at] / 1e9);
    else
        (void)snprintf(out, bytes, "%llu", (unsigned long long)counts[at]);
    const size_t used = strlen(out);
    if (format == METRIC_OPEN && strpbrk(out, ".e") == NULL)
        (void)snprintf(out + used, bytes - used, ".0");
}

/* Accumulates the buckets, from the smallest to +Inf. */
static void expose_histogram(struct strbuf *out, enum metric_id id, struct series *series,
                             enum metric_format format)
{
    const bool seconds = metric_info(id)->type == METRIC_TIMING;
    const size_t bounds = seconds ? ARRAY_LEN(seconds_ns) : ARRAY_LEN(counts);
    const char *name = metric_info(id)->name;
    const char *open = series->labels[0] != '\0' ? "{" : "";
    const char *close = series->labels[0] != '\0' ? "}" : "";
    uint64_t below = 0;

    must(bounds <= BUCKETS_MAX);
    for (size_t i = 0; i < bounds; i++) {
        char bound[32];
        write_bound(bound, sizeof bound, seconds, i, format);
        below += atomic_load(&series->bucket[i]);
        expose_bucket(out, id, series, bound, below);
    }
    /* A concurrent observer may have incremented its bucket, but not yet count. */
    uint64_t total = atomic_load(&series->count);
    if (total < below)
        total = below;
    expose_bucket(out, id, series, "+Inf", total);
    const uint64_t sum = atomic_load(&series->sum);
    strbuf_printf(out, "%s_sum%s%s%s ", name, open, series->labels, close);
    if (seconds) /* a double would lose the nanoseconds of large sums */
        strbuf_printf(out, "%llu.%09llu\n", (unsigned long long)(sum / 1000000000),
                      (unsigned long long)(sum % 1000000000));
    else
        strbuf_printf(out, "%llu\n", (unsigned long long)sum);
    strbuf_printf(out, "%s_count%s%s%s %llu\n", name, open, series->labels, close,
                  (unsigned long long)total);
}

static void expose_value(struct strbuf *out, enum metric_id id, const struct series *series)
{
    const char *open = series->labels[0] != '\0' ? "{" : "";
    const char *close = series->labels[0] != '\0' ? "}" : "";

    must(metric_info(id)->type == METRIC_COUNTER || metric_info(id)->type == METRIC_GAUGE);
    strbuf_printf(out, "%s%s%s%s %lld\n", metric_info(id)->name, open, series->labels, close,
                  (long long)atomic_load(&series->value));
}

static void expose_family(struct strbuf *out, enum metric_id id, enum metric_format format)
{
    const struct metric_info *info = metric_info(id);

    if (info->labels[0] == '\0')
        (void)series_of(id, NULL); /* exposes it as 0 from the start */
    add_values(id);
    const size_t used = atomic_load(&families[id].used);
    if (used == 0)
        return;
    metric_head(out, id, format);
    for (size_t i = 0; i < used; i++) {
        struct series *series = atomic_load(&families[id].series[i]);
        if (info->type == METRIC_HISTOGRAM || info->type == METRIC_TIMING)
            expose_histogram(out, id, series, format);
        else
            expose_value(out, id, series);
    }
    must(out->len > 0);
}

void metric_expose(struct strbuf *out, struct metric_table table, enum metric_format format)
{
    must(out != NULL && table.end <= METRICS);
    for (enum metric_id id = table.begin; id < table.end; id++) {
        const enum metric_type type = metric_info(id)->type;
        if (!is_value(id) && type != METRIC_KERNEL_COUNTER && type != METRIC_KERNEL_GAUGE)
            expose_family(out, id, format);
    }
}
