/*
 * metric - counters, gauges and histograms, each declared once in metrics.def.
 *
 * Base units. Label values come from closed sets, never pod names. Counters and histograms are
 * atomics and may be changed by any thread. Gauges with open labels (models) are not stored: the
 * code that builds the page writes them at scrape time.
 */
#ifndef MILLIGPU_METRIC_H
#define MILLIGPU_METRIC_H

#include "milligpu/strbuf.h"

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

/* METRIC(id, name, type, label ("" for none), help) */
enum metric_id {
#define METRIC(id, name, type, labels, help) id,
#include "milligpu/metrics.def"
#undef METRIC
    METRICS
};

struct metric_info {
    const char *name;
    enum metric_type type;
    const char *labels;
    const char *help;
};
const struct metric_info *metric_info(enum metric_id id);

/*
 * labels: the complete text inside the braces, e.g. "verb=\"filter\""; NULL for none. At most
 * METRIC_SERIES_MAX series per metric: later ones share the last one, with "other" as the value of
 * each label.
 */
enum { METRIC_SERIES_MAX = 256 };
void metric_add(enum metric_id id, const char *labels, uint64_t by);
void metric_set(enum metric_id id, const char *labels, int64_t value);
void metric_observe_ns(enum metric_id id, const char *labels, int64_t ns);
void metric_observe(enum metric_id id, const char *labels, uint64_t value);

/* Visits the series of a counter or gauge that have a value, for doctor. */
void metric_each(enum metric_id id, void *user,
                 void (*visit)(void *user, const char *labels, int64_t value));

/* Every series that has a value, and every unlabelled one from the start. */
void metric_expose(struct strbuf *out, enum metric_format format);

/* For gauges with open labels, at scrape time: HELP and TYPE first, then one sample at a time. */
void metric_head(struct strbuf *out, enum metric_id id, enum metric_format format);
void metric_sample(struct strbuf *out, enum metric_id id, const char *label, struct text value,
                   int64_t number);

/* The end of the page: OpenMetrics has a line for it, so that half a page is not taken for one. */
void metric_end(struct strbuf *out, enum metric_format format);

#endif
