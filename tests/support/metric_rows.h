/*
 * metric_rows - the rows of a table of metrics, as the documents have them.
 */
#ifndef MILLIGPU_TESTS_METRIC_ROWS_H
#define MILLIGPU_TESTS_METRIC_ROWS_H

#include "milligpu/run/metric.h"

/* In Markdown, with the head. */
void metric_rows(struct strbuf *out, enum metric_id begin, enum metric_id end);

#endif
