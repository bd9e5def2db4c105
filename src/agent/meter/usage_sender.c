/*
 * Signs and posts usage reports to milligpud, in a thread of its own. Started and stopped by
 * agent_run(). Only the thread calls the callbacks and the kube_ops; stop sets a flag and signals.
 */
#include "usage_sender.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

enum {
    SEND_MS = 10000, /* timeout of a request; usage_sender_stop() can wait that long */
    AGAIN_MS = 1000,
    AGAIN_MAX_MS = 60 * 1000,
    LOOK_MS = 1000, /* interval between calls of urgent() */
    CONFLICT = 409,
};

static const uint64_t DAY_MS = 86400000;

struct usage_sender {
    struct usage_sender_rules rules;
    pthread_t thread;
    struct mutex lock; /* guards stop */
    struct condvar changed;
    bool stop;
    /* Used by the thread only. */
    uint64_t chance; /* state of the random numbers */
    uint64_t number; /* of the last report */
    uint64_t raise;  /* added to number after a 409 */
    int64_t due_ms;  /* monotonic time of the next report */
    int64_t wait_ms; /* backoff after a failure; 0 after a success */
    struct arena arena;
    char last[ERR_TEXT_MAX]; /* the last logged failure */
};

static int64_t sender_now_ms(void)
{
    return clock_ns() / 1000000;
}

/* A random number from 0 to below - 1; below must be at least 1. */
static int64_t random_below(struct usage_sender *sender, int64_t below)
{
    must(below > 0);
    return (int64_t)(random_next(&sender->chance) % (uint64_t)below);
}

/* Returns 0 if the report was accepted, else CONFLICT or negative, with err. */
static int post(struct usage_sender *sender, const struct usage_report *report, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    CLEANUP(strbuf_done) struct strbuf answer;
    char header[sizeof USAGE_HEADER ": " + SIGNATURE_TEXT_BYTES] = USAGE_HEADER ": ";

    strbuf_init(&body);
    strbuf_init(&answer);
    usage_report_encode(&body, report);
    const struct text bytes = {body.data, body.len};
    const struct signed_facts what = {.node = report->node, .bytes = bytes, .kind = SIGNED_USAGE};
    if (signing_sign(sender->rules.key, &what, header + strlen(header), err) < 0)
        return err_same(err);
    const struct kube_request request = {.id = 1,
                                         .method = "POST",
                                         .path = USAGE_PATH,
                                         .content_type = "application/json",
                                         .header = header,
                                         .body = bytes,
                                         .timeout_ms = SEND_MS};
    const int status = kube_fetch(sender->rules.ops, &request, &answer, err);
    if (status < 0)
        return status;
    if (status >= 200 && status < 300)
        return 0;
    (void)err_set(err, ERR_UNAVAILABLE, "milligpud answers %d: %.300s", status, answer.data);
    return status == CONFLICT ? CONFLICT : err_same(err);
}

/* Schedules a retry. Logs the failure only when it changes, since retries are frequent. */
static void not_taken(struct usage_sender *sender, const struct err *err)
{
    sender->wait_ms = sender->wait_ms == 0 ? AGAIN_MS : 2 * sender->wait_ms;
    if (sender->wait_ms > AGAIN_MAX_MS)
        sender->wait_ms = AGAIN_MAX_MS;
    sender->due_ms =
        sender_now_ms() + sender->wait_ms - random_below(sender, sender->wait_ms / 2 + 1);
    metric_add(COUNT_UNREPORTED, NULL, 1);
    if (strcmp(sender->last, err->text) != 0)
        log_write(LOG_WARN, "usage cannot be reported", log_str("why", err->text));
    (void)snprintf(sender->last, sizeof sender->last, "%s", err->text);
}

static void taken(struct usage_sender *sender)
{
    metric_add(COUNT_REPORTED, NULL, 1);
    if (metric_value(COUNT_REPORTED) == 1 || sender->wait_ms > 0)
        log_plain(LOG_INFO, "usage reported");
    sender->wait_ms = 0;
    sender->raise = DAY_MS;
    sender->last[0] = '\0';
    if (sender->rules.taken != NULL)
        sender->rules.taken(sender->rules.user);
}

static void send_report(struct usage_sender *sender)
{
    struct usage_report report = {.node = text_of(sender->rules.node)};
    struct err err;

    arena_reset(&sender->arena);
    sender->due_ms = sender_now_ms() + sender->rules.every_ms;
    if (!sender->rules.fill(sender->rules.user, &report, &sender->arena))
        return;
    report.number = ++sender->number;
    const int rc = post(sender, &report, &err);
    if (rc == CONFLICT && sender->raise < INT64_MAX / 4 - sender->number) {
        sender->number += sender->raise;
        sender->raise *= 2;
    }
    if (rc == 0)
        taken(sender);
    else
        not_taken(sender, &err);
}

/* After a failure urgent reports wait, too, so that the backoff holds. */
static bool is_due(struct usage_sender *sender)
{
    const struct usage_sender_rules *rules = &sender->rules;
    const bool is_news = rules->urgent != NULL && rules->urgent(rules->user);

    return sender_now_ms() >= sender->due_ms || (is_news && sender->wait_ms == 0);
}

static void *sender_main(void *user)
{
    struct usage_sender *sender = user;

    mutex_lock(&sender->lock);
    while (!sender->stop) {
        mutex_unlock(&sender->lock);
        if (is_due(sender))
            send_report(sender);
        const int64_t left_ms = sender->due_ms - sender_now_ms();
        mutex_lock(&sender->lock);
        if (sender->stop || left_ms <= 0)
            continue;
        const struct timespec until = clock_deadline(left_ms < LOOK_MS ? left_ms : LOOK_MS);
        (void)condvar_wait_until(&sender->changed, &sender->lock, &until);
    }
    mutex_unlock(&sender->lock);
    return NULL;
}

static void sender_free(struct usage_sender *sender)
{
    arena_done(&sender->arena);
    condvar_done(&sender->changed);
    mutex_done(&sender->lock);
    xfree(sender);
}

int usage_sender_start(const struct usage_sender_rules *rules, struct usage_sender **out,
                       struct err *err)
{
    struct usage_sender *sender = xcalloc(1, sizeof *sender);
    struct clock_ops clock;

    must(rules->node[0] != '\0' && rules->fill != NULL && rules->every_ms > 0);
    sender->rules = *rules;
    sender->raise = DAY_MS;
    arena_init(&sender->arena);
    clock_real(&clock);
    sender->number = (uint64_t)clock.wall_ms(clock.ctx);
    if (getrandom(&sender->chance, sizeof sender->chance, 0) != (ssize_t)sizeof sender->chance)
        sender->chance = (uint64_t)clock_ns();
    sender->due_ms = sender_now_ms() + random_below(sender, rules->every_ms);
    mutex_init(&sender->lock);
    condvar_init(&sender->changed);
    const int rc = pthread_create(&sender->thread, NULL, sender_main, sender);
    if (rc != 0) {
        sender_free(sender);
        return err_set(err, ERR_IO, "no thread for reports of usage: %s", strerrordesc_np(rc));
    }
    *out = sender;
    return 0;
}

void usage_sender_stop(struct usage_sender *sender)
{
    if (sender == NULL)
        return;
    mutex_lock(&sender->lock);
    sender->stop = true;
    condvar_signal(&sender->changed);
    mutex_unlock(&sender->lock);
    (void)pthread_join(sender->thread, NULL);
    sender_free(sender);
}
