/* metric_sum - the value of a metric over some of its series. */
#ifndef MILLIGPU_TESTS_METRIC_SUM_H
#define MILLIGPU_TESTS_METRIC_SUM_H

#include <stdint.h>

#include "milligpu/run/metric.h"

/* Adds up the series whose labels contain this part; "" for all series. */
int64_t metric_sum(enum metric_id id, const char *part);

#endif
