/*
 * A cache of refusals in their encoded form. Called by webhooks.c on the HTTP threads. It has a
 * lock of its own, so that a full cluster's repeated questions do not wait for the table of waiting
 * pods.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/waiting/waiting_pods.h"

#include "waiting_pods_internal.h"

void answers_init(struct answers *answers)
{
    *answers = (struct answers){.next = 0};
    mutex_init(&answers->lock);
}

static void answers_forget(struct answers *answers, struct answer *answer)
{
    must(answers->bytes >= answer->len);
    answers->bytes -= answer->len;
    xfree(answer->request);
    xfree(answer->bytes);
    *answer = (struct answer){0};
}

void answers_done(struct answers *answers)
{
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        answers_forget(answers, &answers->answer[i]);
    must(answers->bytes == 0);
    mutex_done(&answers->lock);
}

/* Compares the complete request, but only the digest of the names. */
static bool answers_to(const struct answer *answer, const struct refusal_key *key, uint32_t hash)
{
    must(key->request != NULL);

    return answer->request != NULL && answer->hash == hash &&
           answer->capacity_generation == key->capacity_generation &&
           answer->n_names == key->names && request_eq(answer->request, key->request);
}

bool waiting_pods_find_refusal(struct waiting_pods *waiting_pods, const struct refusal_key *key,
                               struct strbuf *out, struct cause *out_cause)
{
    struct answers *answers = &waiting_pods->answers;
    const uint32_t hash = request_hash(key->request);
    bool found = false;

    must(request_asks(key->request));
    mutex_lock(&answers->lock);
    for (size_t i = 0; i < ANSWERS_MAX && !found; i++) {
        const struct answer *answer = &answers->answer[i];
        found = answers_to(answer, key, hash);
        if (found) {
            /* Under the lock (at most REFUSAL_BYTES_MAX): another thread may replace the answer. */
            strbuf_text(out, (struct text){answer->bytes, answer->len});
            *out_cause = answer->cause;
        }
    }
    mutex_unlock(&answers->lock);
    return found;
}

void waiting_pods_keep_refusal(struct waiting_pods *waiting_pods, const struct refusal_key *key,
                               struct text bytes, struct cause cause)
{
    must(bytes.len > 0 && cause.why != REASON_NONE);

    struct answers *answers = &waiting_pods->answers;
    const uint32_t hash = request_hash(key->request);

    if (bytes.len > REFUSAL_BYTES_MAX)
        return;
    mutex_lock(&answers->lock);
    /* Evicts the oldest answer, then further ones until the bytes fit. */
    struct answer *answer = &answers->answer[answers->next++ % ANSWERS_MAX];
    answers_forget(answers, answer);
    for (size_t i = answers->next; bytes.len > REFUSALS_BYTES_MAX - answers->bytes; i++)
        answers_forget(answers, &answers->answer[i % ANSWERS_MAX]);
    *answer = (struct answer){.request = request_clone(key->request),
                              .hash = hash,
                              .n_names = key->names,
                              .capacity_generation = key->capacity_generation,
                              .cause = cause,
                              .bytes = xmalloc(bytes.len),
                              .len = bytes.len};
    memcpy(answer->bytes, bytes.at, bytes.len);
    answers->bytes += bytes.len;
    mutex_unlock(&answers->lock);
}

size_t answers_bytes(struct answers *answers)
{
    mutex_lock(&answers->lock);
    const size_t bytes = answers->bytes;
    mutex_unlock(&answers->lock);
    must(bytes <= REFUSALS_BYTES_MAX);
    return bytes;
}
