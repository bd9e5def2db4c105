/*
 * metric - counters, gauges and histograms, declared in metrics.def (milligpud) and
 * node_metrics.def (milligpu-node).
 *
 * Values have base units. Stored label values come from closed sets, never pod names. Counters and
 * histograms are atomics, for any thread. Metrics with open labels (models, GPUs, pods) are not
 * stored: the code that builds the page writes them at scrape time.
 */
#ifndef MILLIGPU_METRIC_H
#define MILLIGPU_METRIC_H

#include "milligpu/base/strbuf.h"

/*
 * METRIC_TIMING is a histogram of seconds, METRIC_HISTOGRAM one of counts. METRIC_KERNEL_COUNTER
 * and METRIC_KERNEL_GAUGE are kept by the kernel: the code that builds the page writes them.
 */
enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
    METRIC_TIMING,
    METRIC_KERNEL_COUNTER,
    METRIC_KERNEL_GAUGE
};

/* Prometheus text 0.0.4, and OpenMetrics 1.0.0, which has other names and an end-of-page line. */
enum metric_format { METRIC_PLAIN, METRIC_OPEN };

/*
 * METRIC(id, name, type, labels ("a,b"; "" for none), help)
 * VALUE(id, value): a series of the METRIC before it, which has one label and no other series. It
 * is on the page from the start, in the order of the table; its id is used without labels.
 */
enum metric_id {
#define METRIC(id, name, type, labels, help) id,
#define VALUE(id, value)                     id,
#include "milligpu/run/metrics.def"
    METRICS_OF_MILLIGPUD,
    METRICS_BEFORE_NODE = METRICS_OF_MILLIGPUD - 1,
#include "milligpu/run/node_metrics.def"
    METRICS
#undef METRIC
#undef VALUE
};

/* The metrics of one program: begin <= id < end. */
struct metric_table {
    enum metric_id begin;
    enum metric_id end;
};
static const struct metric_table milligpud_metrics = {0, METRICS_OF_MILLIGPUD};
static const struct metric_table node_metrics = {METRICS_OF_MILLIGPUD, METRICS};

struct metric_info {
    const char *name; /* NULL for a VALUE */
    enum metric_type type;
    const char *labels; /* label names; the value for a VALUE */
    const char *help;
};
const struct metric_info *metric_info(enum metric_id id);

/*
 * One value per label, in the order of the table. Functions take NULL for a metric without labels
 * and for a VALUE. Special characters are replaced as by text_show(): Prometheus rejects a page
 * with an escape other than its three.
 */
struct label_values {
    const char *const *value;
    size_t count;
};
#define LABEL_VALUES(...)                                                                          \
    (&(struct label_values){(const char *const[]){__VA_ARGS__},                                    \
                            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)})

/*
 * Limit of series per metric: later ones share the last one, with "other" as the value of each
 * label.
 */
enum { METRIC_SERIES_MAX = 256 };
void metric_add(enum metric_id id, const struct label_values *values, uint64_t by);
void metric_set(enum metric_id id, const struct label_values *values, int64_t value);
void metric_observe_ns(enum metric_id id, const struct label_values *values, int64_t ns);
void metric_observe(enum metric_id id, const struct label_values *values, uint64_t value);

/* Returns a counter or gauge without labels, or a VALUE. */
int64_t metric_value(enum metric_id id);

/* Visits the series of a counter or gauge that have a value, for doctor. */
void metric_each(enum metric_id id, void *user,
                 void (*visit)(void *user, const char *labels, int64_t value));

/* Writes every series that has a value; unlabelled series and VALUEs always. */
void metric_expose(struct strbuf *out, struct metric_table table, enum metric_format format);

/* For metrics with open labels, at scrape time: HELP and TYPE, then each sample. */
void metric_head(struct strbuf *out, enum metric_id id, enum metric_format format);
void metric_sample(struct strbuf *out, enum metric_id id, const struct label_values *values,
                   uint64_t number);
/* milli is in thousandths of the metric's unit, and written as a decimal number. */
void metric_sample_milli(struct strbuf *out, enum metric_id id, const struct label_values *values,
                         uint64_t milli);

/* Ends the page: OpenMetrics has a line for it, so that a truncated page is detected. */
void metric_end(struct strbuf *out, enum metric_format format);

#endif
