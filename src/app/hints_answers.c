#include "milligpu/alloc.h"

#include "hints_inside.h"

void answers_init(struct answers *answers)
{
    *answers = (struct answers){.next = 0};
    must(pthread_mutex_init(&answers->lock, NULL) == 0);
}

void answers_done(struct answers *answers)
{
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        if (answers->answer[i].request == NULL)
            continue;
        xfree(answers->answer[i].request);
        strbuf_done(&answers->answer[i].bytes);
    }
    must(pthread_mutex_destroy(&answers->lock) == 0);
}

static bool answers_to(const struct answer *answer, const struct refusal_key *key, uint32_t hash)
{
    must(key->request != NULL);

    return answer->request != NULL && answer->hash == hash && answer->room == key->room &&
           answer->names == key->names && request_eq(answer->request, key->request);
}

bool hints_answer_find(struct hints *hints, const struct refusal_key *key, struct strbuf *out,
                       enum reason *out_reason)
{
    struct answers *answers = &hints->answers;
    const uint32_t hash = request_hash(key->request);
    bool found = false;

    must(request_asks(key->request));
    must(pthread_mutex_lock(&answers->lock) == 0);
    for (size_t i = 0; i < ANSWERS_MAX && !found; i++) {
        const struct answer *answer = &answers->answer[i];
        found = answers_to(answer, key, hash);
        if (found) {
            strbuf_text(out, (struct text){answer->bytes.data, answer->bytes.len});
            *out_reason = answer->reason;
        }
    }
    must(pthread_mutex_unlock(&answers->lock) == 0);
    return found;
}

void hints_answer_keep(struct hints *hints, const struct refusal_key *key, struct text bytes,
                       enum reason reason)
{
    must(bytes.len > 0 && reason != REASON_NONE);

    struct answers *answers = &hints->answers;
    const uint32_t hash = request_hash(key->request);

    must(pthread_mutex_lock(&answers->lock) == 0);
    /* The oldest goes; an answer about an older room goes first by being overtaken. */
    struct answer *answer = &answers->answer[answers->next++ % ANSWERS_MAX];
    if (answer->request == NULL)
        strbuf_init(&answer->bytes);
    xfree(answer->request);
    answer->request = request_clone(key->request);
    answer->hash = hash;
    answer->names = key->names;
    answer->room = key->room;
    answer->reason = reason;
    strbuf_reset(&answer->bytes);
    strbuf_text(&answer->bytes, bytes);
    must(pthread_mutex_unlock(&answers->lock) == 0);
}
