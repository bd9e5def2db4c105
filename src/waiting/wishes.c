/*
 * The distinct requests of pods, in a hash table of fixed size with chains, and in a list of those
 * that somebody waits for. Two owners: the hints and the pod cache, each with its own lock and its
 * own table.
 */
#include "milligpu/waiting/wishes.h"

#include <string.h>

#include "milligpu/base/alloc.h"

static struct wish **bucket_of(struct wishes *wishes, uint32_t hash)
{
    return &wishes->bucket[hash % WISH_BUCKETS];
}

/* The size of a wish for this request, with the allocator's overhead for two blocks. */
static size_t wishes_bytes_of(const struct request *request)
{
    enum { BLOCK_BYTES = 16 };

    must(request_asks(request));
    return sizeof(struct wish) + request_bytes(request) + 2 * (size_t)BLOCK_BYTES;
}

static_assert(sizeof(struct host) == 2 * sizeof(uint32_t), "it is hashed by its bytes");

/* Includes names and host, although request_hash() ignores them. */
static uint32_t hash_of(const struct request *request)
{
    uint32_t hash = request_hash(request);

    hash ^= text_hash((struct text){(const char *)&request->host, sizeof request->host});
    for (uint32_t i = 0; i < request->wants; i++)
        hash = hash * 31 + text_hash(text_of(request->want[i].container));
    for (uint32_t i = 0; i < request->others; i++)
        hash = hash * 31 + text_hash(text_of(request->other[i]));
    return hash;
}

/*
 * Large requests get half of the bytes, so that a tenant who makes them does not displace others.
 */
static bool wishes_has_room(const struct wishes *wishes, size_t bytes)
{
    must(wishes->large_bytes <= wishes->bytes && wishes->bytes <= WISHES_BYTES_MAX);
    if (bytes > WISH_SMALL_BYTES && bytes > WISHES_BYTES_MAX / 2 - wishes->large_bytes)
        return false;
    return bytes <= WISHES_BYTES_MAX - wishes->bytes;
}

/* Called when a wish enters and leaves the table, never for a further holder. */
static void wishes_weigh(struct wishes *wishes, const struct wish *wish, bool more)
{
    const size_t large = wish->bytes > WISH_SMALL_BYTES ? wish->bytes : 0;

    must(more || (wishes->bytes >= wish->bytes && wishes->large_bytes >= large));
    wishes->bytes = more ? wishes->bytes + wish->bytes : wishes->bytes - wish->bytes;
    wishes->large_bytes = more ? wishes->large_bytes + large : wishes->large_bytes - large;
}

/*
 * A bind needs the names of the containers, and is judged by the host, so equal wishes have both
 * equal.
 */
static bool is_same(const struct wish *wish, uint32_t hash, const struct request *request)
{
    const struct host *host = &wish->request->host;

    must(wish->holders > 0);
    if (wish->hash != hash || host->cpu_milli != request->host.cpu_milli ||
        host->memory_mib != request->host.memory_mib || wish->request->others != request->others ||
        !request_eq(wish->request, request))
        return false;
    for (uint32_t i = 0; i < request->wants; i++)
        if (strcmp(wish->request->want[i].container, request->want[i].container) != 0)
            return false;
    for (uint32_t i = 0; i < request->others; i++)
        if (strcmp(wish->request->other[i], request->other[i]) != 0)
            return false;
    return true;
}

static struct wish *wish_new(const struct request *request, uint32_t hash)
{
    struct wish *wish = xcalloc(1, sizeof *wish);

    must(wishes_bytes_of(request) <= WISHES_BYTES_MAX);
    wish->request = request_clone(request);
    wish->bytes = (uint32_t)wishes_bytes_of(request);
    wish->hash = hash;
    return wish;
}

struct wish *wishes_hold(struct wishes *wishes, const struct request *request)
{
    const uint32_t hash = hash_of(request);
    struct wish **bucket = bucket_of(wishes, hash);
    struct wish *wish = *bucket;

    while (wish != NULL && !is_same(wish, hash, request))
        wish = wish->next;
    if (wish == NULL && !wishes_has_room(wishes, wishes_bytes_of(request)))
        return NULL;
    if (wish == NULL) {
        wish = wish_new(request, hash);
        wish->next = *bucket;
        *bucket = wish;
        wishes_weigh(wishes, wish, true);
    }
    must(wish->holders < UINT32_MAX);
    wish->holders++;
    return wish;
}

void wishes_let_go(struct wishes *wishes, struct wish *wish)
{
    /* Who waits holds a reference, too, so a wish that is waited for never leaves. */
    must(wish->holders > wish->waiting);
    if (--wish->holders > 0)
        return;

    struct wish **at = bucket_of(wishes, wish->hash);
    while (*at != wish)
        at = &(*at)->next;
    *at = wish->next;
    wishes_weigh(wishes, wish, false);
    xfree(wish->request);
    xfree(wish);
}

void wishes_wait(struct wishes *wishes, struct wish *wish)
{
    must(wish->waiting < wish->holders);
    /* The list contains each wish once, however many pods wait for it. */
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
