#include "wishes.h"

#include "milligpu/alloc.h"

static struct wish **bucket_of(struct wishes *wishes, uint32_t hash)
{
    must(wishes != NULL);

    return &wishes->bucket[hash % WISH_BUCKETS];
}

struct wish *wishes_hold(struct wishes *wishes, const struct request *request)
{
    const uint32_t hash = request_hash(request);
    struct wish **bucket = bucket_of(wishes, hash);
    struct wish *wish = *bucket;

    while (wish != NULL && (wish->hash != hash || !request_eq(wish->request, request)))
        wish = wish->next;
    if (wish == NULL) {
        wish = xcalloc(1, sizeof *wish);
        wish->request = request_clone(request);
        wish->hash = hash;
        wish->next = *bucket;
        *bucket = wish;
    }
    must(wish->holders < UINT32_MAX);
    wish->holders++;
    return wish;
}

void wishes_let_go(struct wishes *wishes, struct wish *wish)
{
    must(wish->holders > wish->waiting);
    if (--wish->holders > 0)
        return;

    struct wish **at = bucket_of(wishes, wish->hash);
    while (*at != wish)
        at = &(*at)->next;
    *at = wish->next;
    xfree(wish->request);
    xfree(wish);
}

void wishes_wait(struct wishes *wishes, struct wish *wish)
{
    must(wish->waiting < wish->holders);
    if (wish->waiting++ > 0)
        return;
    wish->before = NULL;
    wish->behind = wishes->waited;
    if (wish->behind != NULL)
        wish->behind->before = wish;
    wishes->waited = wish;
}

void wishes_rest(struct wishes *wishes, struct wish *wish)
{
    must(wish->waiting > 0);
    if (--wish->waiting > 0)
        return;
    *(wish->before != NULL ? &wish->before->behind : &wishes->waited) = wish->behind;
    if (wish->behind != NULL)
        wish->behind->before = wish->before;
    wish->before = wish->behind = NULL;
}

size_t wishes_waited(struct wishes *wishes, struct wish **out, size_t most)
{
    size_t count = 0;

    must(most == 0 || out != NULL);
    for (struct wish *wish = wishes->waited; wish != NULL && count < most; wish = wish->behind) {
        must(wish->waiting > 0);
        wish->holders++;
        out[count++] = wish;
    }
    return count;
}
