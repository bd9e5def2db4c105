#include "metric_sum.h"

#include <string.h>

struct sum {
    const char *part;
    int64_t value;
};

static void add(void *user, const char *labels, int64_t value)
{
    struct sum *sum = user;

    sum->value += strstr(labels, sum->part) != NULL ? value : 0;
}

int64_t metric_sum(enum metric_id id, const char *part)
{
    struct sum sum = {part, 0};

    metric_each(id, &sum, add);
    return sum.value;
}
