/*
 * Hourly sums between the report listener, which adds, and the writer, which takes. In order: rows,
 * adding, taking.
 */
#include "milligpu/usage/measured_sums.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/run/mutex.h"

/* --- rows --- */

struct sum {
    struct store_measured row; /* its names are in text */
    uint32_t key_len;
    char text[]; /* the key: the hour, then both names, each with a NUL */
};

struct measured_sums {
    struct mutex lock; /* guards everything below */
    struct map rows;
};

struct measured_sums *measured_sums_new(void)
{
    struct measured_sums *sums = xcalloc(1, sizeof *sums);

    mutex_init(&sums->lock);
    map_init(&sums->rows);
    return sums;
}

void measured_sums_free(struct measured_sums *sums)
{
    struct sum *left;

    if (sums == NULL)
        return;
    for (size_t at = 0; (left = map_next(&sums->rows, &at)) != NULL;)
        xfree(left);
    map_done(&sums->rows);
    mutex_done(&sums->lock);
    xfree(sums);
}

/* A row with the key of row and sums of 0, not in the table. */
static struct sum *sum_new(const struct store_measured *row)
{
    const size_t namespace = strlen(row->namespace) + 1;
    const size_t model = strlen(row->model) + 1;
    const size_t key = sizeof row->hour_ms + namespace + model;
    struct sum *sum = xcalloc(1, sizeof *sum + key);

    sum->key_len = (uint32_t)key;
    memcpy(sum->text, &row->hour_ms, sizeof row->hour_ms);
    memcpy(sum->text + sizeof row->hour_ms, row->namespace, namespace);
    memcpy(sum->text + sizeof row->hour_ms + namespace, row->model, model);
    sum->row = (struct store_measured){
        .hour_ms = row->hour_ms,
        .namespace = sum->text + sizeof row->hour_ms,
        .model = sum->text + sizeof row->hour_ms + namespace,
    };
    return sum;
}

/* Finds or adds a row. NULL: not found, and the table has most rows. */
static struct sum *sum_of(struct measured_sums *sums, const struct store_measured *row, size_t most)
    REQUIRES(sums->lock)
{
    struct sum *sum = sum_new(row);
    const struct text key = {sum->text, sum->key_len};
    struct sum *found = map_find(&sums->rows, key);

    if (found == NULL && sums->rows.count < most) {
        must(map_put(&sums->rows, key, sum) == NULL);
        return sum;
    }
    xfree(sum);
    return found;
}

/* --- adding --- */

bool measured_sums_add(struct measured_sums *sums, const struct store_measured *row)
{
    struct store_measured beyond = *row;

    must(row->hour_ms >= 0 && row->hour_ms % STORE_HOUR_MS == 0);
    beyond.namespace = beyond.model = "";
    mutex_lock(&sums->lock);
    struct sum *sum = sum_of(sums, row, MEASURED_SUMS_MAX);
    if (sum == NULL)
        sum = sum_of(sums, &beyond, MEASURED_SUMS_MAX + MEASURED_SUMS_HOURS_MAX);
    if (sum != NULL) {
        sum->row.milli_s += row->milli_s;
        sum->row.of_milli_s += row->of_milli_s;
        sum->row.mib_s += row->mib_s;
        sum->row.of_mib_s += row->of_mib_s;
    }
    mutex_unlock(&sums->lock);
    return sum != NULL;
}

/* --- taking --- */

struct sums_taking {
    struct store_measured *out;
    uint32_t count;
    uint32_t most;
    struct arena *arena;
};

static bool leave_sum(void *user, void *value)
{
    struct sums_taking *taking = user;
    struct sum *sum = value;

    if (taking->count == taking->most)
        return true;
    struct store_measured *out = &taking->out[taking->count++];
    *out = sum->row;
    out->namespace = arena_copy(taking->arena, text_of(sum->row.namespace));
    out->model = arena_copy(taking->arena, text_of(sum->row.model));
    xfree(sum);
    return false;
}

uint32_t measured_sums_take(struct measured_sums *sums, struct store_measured *out, uint32_t most,
                            struct arena *arena)
{
    struct sums_taking taking = {.out = out, .most = most, .arena = arena};

    mutex_lock(&sums->lock);
    (void)map_retain(&sums->rows, &taking, leave_sum);
    mutex_unlock(&sums->lock);
    must(taking.count <= most);
    return taking.count;
}
