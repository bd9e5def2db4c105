/*
 * metric - counters, gauges and histograms, each declared once: those of milligpud in metrics.def,
 * those of milligpu-node in node_metrics.def.
 *
 * Base units. Label values that are stored come from closed sets, never pod names. Counters and
 * histograms are atomics and may be changed by any thread. Metrics with open labels (models, GPUs,
 * pods) are not stored: the code that builds the page writes them at scrape time.
 */
#ifndef MILLIGPU_METRIC_H
#define MILLIGPU_METRIC_H

#include "milligpu/base/strbuf.h"

/*
 * METRIC_TIMING is a histogram of seconds, METRIC_HISTOGRAM one of counts. The kernel keeps those
 * of METRIC_KERNEL_COUNTER and METRIC_KERNEL_GAUGE: the code that builds the page writes them.
 */
enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
    METRIC_TIMING,
    METRIC_KERNEL_COUNTER,
    METRIC_KERNEL_GAUGE
};

/* Prometheus text 0.0.4, and OpenMetrics 1.0.0, which differ in names and in the end. */
enum metric_format { METRIC_PLAIN, METRIC_OPEN };

/*
 * METRIC(id, name, type, labels ("a,b"; "" for none), help)
 * VALUE(id, value): a series of the metric above, which has one label and no other series. It is on
 * the page from the start, in the order of the table, and its id is used without labels.
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

/* The metrics of one program: from begin, up to and without end. */
struct metric_table {
    enum metric_id begin;
    enum metric_id end;
};
static const struct metric_table milligpud_metrics = {0, METRICS_OF_MILLIGPUD};
static const struct metric_table node_metrics = {METRICS_OF_MILLIGPUD, METRICS};

struct metric_info {
    const char *name; /* NULL: a VALUE */
    enum metric_type type;
    const char *labels; /* of a VALUE: its value */
    const char *help;
};
const struct metric_info *metric_info(enum metric_id id);

/*
 * A value for each label of the table, in its order; NULL in place of them for a metric without
 * labels, and for a VALUE. Odd characters are written as text_show() does: Prometheus knows three
 * escapes, and another one would spoil the whole page.
 */
struct label_values {
    const char *const *value;
    size_t count;
};
#define LABEL_VALUES(...)                                                                          \
    (&(struct label_values){(const char *const[]){__VA_ARGS__},                                    \
                            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)})

/*
 * At most METRIC_SERIES_MAX series per metric: later ones share the last one, with "other" as the
 * value of each label.
 */
enum { METRIC_SERIES_MAX = 256 };
void metric_add(enum metric_id id, const struct label_values *values, uint64_t by);
void metric_set(enum metric_id id, const struct label_values *values, int64_t value);
void metric_observe_ns(enum metric_id id, const struct label_values *values, int64_t ns);
void metric_observe(enum metric_id id, const struct label_values *values, uint64_t value);

/* Of a counter or gauge without labels, or of a VALUE. */
int64_t metric_value(enum metric_id id);

/* Visits the series of a counter or gauge that have a value, for doctor. */
void metric_each(enum metric_id id, void *user,
                 void (*visit)(void *user, const char *labels, int64_t value));

/* Every series that has a value; unlabelled ones and those of a VALUE from the start. */
void metric_expose(struct strbuf *out, struct metric_table table, enum metric_format format);

/* For metrics with open labels, at scrape time: HELP and TYPE first, then one sample at a time. */
void metric_head(struct strbuf *out, enum metric_id id, enum metric_format format);
void metric_sample(struct strbuf *out, enum metric_id id, const struct label_values *values,
                   uint64_t number);
/* The number is in thousandths of the metric's unit, and written with a point. */
void metric_sample_milli(struct strbuf *out, enum metric_id id, const struct label_values *values,
                         uint64_t milli);

/* The end of the page: OpenMetrics has a line for it, so that half a page is not taken for one. */
void metric_end(struct strbuf *out, enum metric_format format);

#endif
