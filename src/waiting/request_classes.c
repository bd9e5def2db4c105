/*
 * The distinct requests of pods: a hash table of fixed size with chains, and a list of the classes
 * with waiters. Hints and pod cache each own a table, with a lock of their own.
 */
#include "milligpu/waiting/request_classes.h"

#include <string.h>

#include "milligpu/base/alloc.h"

static struct request_class **bucket_of(struct request_classes *request_classes, uint32_t hash)
{
    return &request_classes->bucket[hash % REQUEST_CLASS_BUCKETS];
}

/* The size of a request class for this request, with the allocator's overhead for two blocks. */
static size_t request_classes_bytes_of(const struct request *request)
{
    enum { BLOCK_BYTES = 16 };

    must(request_asks(request));
    return sizeof(struct request_class) + request_bytes(request) + 2 * (size_t)BLOCK_BYTES;
}

static_assert(sizeof(struct host) == 2 * sizeof(uint32_t), "it is hashed by its bytes");

/* Includes names and host, although request_hash() ignores them. */
static uint32_t hash_of(const struct request *request)
{
    uint32_t hash = request_hash(request);

    hash ^= text_hash((struct text){(const char *)&request->host, sizeof request->host});
    for (uint32_t i = 0; i < request->n_wants; i++)
        hash = hash * 31 + text_hash(text_of(request->want[i].container));
    for (uint32_t i = 0; i < request->n_others; i++)
        hash = hash * 31 + text_hash(text_of(request->other[i]));
    return hash;
}

/* Large requests get at most half of the bytes, so that one tenant cannot displace others. */
static bool request_classes_has_room(const struct request_classes *request_classes, size_t bytes)
{
    must(request_classes->large_bytes <= request_classes->bytes &&
         request_classes->bytes <= REQUEST_CLASSES_BYTES_MAX);
    if (bytes > REQUEST_CLASS_SMALL_BYTES &&
        bytes > REQUEST_CLASSES_BYTES_MAX / 2 - request_classes->large_bytes)
        return false;
    return bytes <= REQUEST_CLASSES_BYTES_MAX - request_classes->bytes;
}

/* Called when a request class enters or leaves the table, not for further references. */
static void request_classes_weigh(struct request_classes *request_classes,
                                  const struct request_class *request_class, bool more)
{
    const size_t large =
        request_class->bytes > REQUEST_CLASS_SMALL_BYTES ? request_class->bytes : 0;

    must(more ||
         (request_classes->bytes >= request_class->bytes && request_classes->large_bytes >= large));
    request_classes->bytes = more ? request_classes->bytes + request_class->bytes
                                  : request_classes->bytes - request_class->bytes;
    request_classes->large_bytes =
        more ? request_classes->large_bytes + large : request_classes->large_bytes - large;
}

/* Compares container names, which a bind needs, and the host, by which it is ranked, too. */
static bool is_same(const struct request_class *request_class, uint32_t hash,
                    const struct request *request)
{
    const struct host *host = &request_class->request->host;

    must(request_class->holders > 0);
    if (request_class->hash != hash || host->cpu_milli != request->host.cpu_milli ||
        host->memory_mib != request->host.memory_mib ||
        request_class->request->n_others != request->n_others ||
        !request_eq(request_class->request, request))
        return false;
    for (uint32_t i = 0; i < request->n_wants; i++)
        if (strcmp(request_class->request->want[i].container, request->want[i].container) != 0)
            return false;
    for (uint32_t i = 0; i < request->n_others; i++)
        if (strcmp(request_class->request->other[i], request->other[i]) != 0)
            return false;
    return true;
}

static struct request_class *request_class_new(const struct request *request, uint32_t hash)
{
    struct request_class *request_class = xcalloc(1, sizeof *request_class);

    must(request_classes_bytes_of(request) <= REQUEST_CLASSES_BYTES_MAX);
    request_class->request = request_clone(request);
    request_class->bytes = (uint32_t)request_classes_bytes_of(request);
    request_class->hash = hash;
    return request_class;
}

struct request_class *request_classes_hold(struct request_classes *request_classes,
                                           const struct request *request)
{
    const uint32_t hash = hash_of(request);
    struct request_class **bucket = bucket_of(request_classes, hash);
    struct request_class *request_class = *bucket;

    while (request_class != NULL && !is_same(request_class, hash, request))
        request_class = request_class->next;
    if (request_class == NULL &&
        !request_classes_has_room(request_classes, request_classes_bytes_of(request)))
        return NULL;
    if (request_class == NULL) {
        request_class = request_class_new(request, hash);
        request_class->next = *bucket;
        *bucket = request_class;
        request_classes_weigh(request_classes, request_class, true);
    }
    must(request_class->holders < UINT32_MAX);
    request_class->holders++;
    return request_class;
}

void request_classes_let_go(struct request_classes *request_classes,
                            struct request_class *request_class)
{
    /* A waiter holds a reference of its own, so a class with waiters is never freed. */
    must(request_class->holders > request_class->waiting);
    if (--request_class->holders > 0)
        return;

    struct request_class **at = bucket_of(request_classes, request_class->hash);
    while (*at != request_class)
        at = &(*at)->next;
    *at = request_class->next;
    request_classes_weigh(request_classes, request_class, false);
    xfree(request_class->request);
    xfree(request_class);
}

void request_classes_wait(struct request_classes *request_classes,
                          struct request_class *request_class)
{
    must(request_class->waiting < request_class->holders);
    /* The list contains each class once, for any number of waiters. */
    if (request_class->waiting++ > 0)
        return;
    request_class->before = NULL;
    request_class->behind = request_classes->waited;
    if (request_class->behind != NULL)
        request_class->behind->before = request_class;
    request_classes->waited = request_class;
}

void request_classes_unwait(struct request_classes *request_classes,
                            struct request_class *request_class)
{
    must(request_class->waiting > 0);
    if (--request_class->waiting > 0)
        return;
    *(request_class->before != NULL ? &request_class->before->behind : &request_classes->waited) =
        request_class->behind;
    if (request_class->behind != NULL)
        request_class->behind->before = request_class->before;
    request_class->before = request_class->behind = NULL;
}

size_t request_classes_waiting(struct request_classes *request_classes, struct request_class **out,
                               size_t most)
{
    size_t count = 0;

    must(most == 0 || out != NULL);
    for (struct request_class *request_class = request_classes->waited;
         request_class != NULL && count < most; request_class = request_class->behind) {
        must(request_class->waiting > 0);
        request_class->holders++;
        out[count++] = request_class;
    }
    return count;
}
