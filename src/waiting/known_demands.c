/*
 * The table of distinct node demands, by their encoded key. The pod cache owns the only table. The
 * thread that writes the pod cache changes the table under the cache's lock, and reads its
 * tolerations without.
 */
#include "milligpu/waiting/known_demands.h"

#include <string.h>

#include "milligpu/base/alloc.h"

void known_demands_init(struct known_demands *known)
{
    *known = (struct known_demands){.tolerations = tolerations_new()};
    map_init(&known->by_key);
}

void known_demands_done(struct known_demands *known)
{
    must(known->bytes == 0 && known->large_bytes == 0);
    must(known->by_key.count == 0);
    map_done(&known->by_key);
    tolerations_free(known->tolerations);
    known->tolerations = NULL;
}

static size_t large(const struct kept_demands *kept)
{
    must(kept->bytes > 0);
    return kept->bytes > DEMANDS_SMALL_BYTES ? kept->bytes : 0;
}

static void kept_free(struct kept_demands *kept)
{
    must(kept->holders == 0);
    arena_done(kept->memory);
    xfree(kept->memory);
    xfree(kept->known);
    xfree(kept->key);
    xfree(kept);
}

/* Takes the bytes of the key. The limits do not include the entry yet. */
static struct kept_demands *kept_new(const struct node_demands *demands, struct strbuf *key)
{
    struct kept_demands *kept = xcalloc(1, sizeof *kept);
    struct arena loose;

    /* In one block without spare capacity, like complete pods in the pod cache. */
    arena_init(&loose);
    must(node_demands_keep(demands, &loose) != NULL);
    kept->memory = xmalloc(sizeof *kept->memory);
    arena_init_of(kept->memory, arena_used(&loose));
    arena_done(&loose);
    kept->demands = node_demands_keep(demands, kept->memory);
    kept->known = xcalloc((size_t)demands->n_tolerations + 1, sizeof(struct known_toleration *));
    kept->key_bytes = key->len;
    kept->key = strbuf_steal(key);
    kept->bytes = sizeof *kept + sizeof *kept->memory + arena_bytes(kept->memory) +
                  kept->key_bytes +
                  kept->demands->n_tolerations * sizeof(struct known_toleration *);
    return kept;
}

static bool has_room(const struct known_demands *known, const struct kept_demands *kept)
{
    must(known->bytes <= DEMANDS_BYTES_MAX && known->large_bytes <= DEMANDS_BYTES_MAX / 2);
    return kept->bytes <= DEMANDS_BYTES_MAX - known->bytes &&
           large(kept) <= DEMANDS_BYTES_MAX / 2 - known->large_bytes;
}

static void enter(struct known_demands *known, struct kept_demands *kept)
{
    known->bytes += kept->bytes;
    known->large_bytes += large(kept);
    must(map_put(&known->by_key, (struct text){kept->key, kept->key_bytes}, kept) == NULL);
    for (uint32_t i = 0; i < kept->demands->n_tolerations; i++)
        kept->known[i] = tolerations_add(known->tolerations, &kept->demands->toleration[i]);
    must(known->bytes <= DEMANDS_BYTES_MAX);
}

struct kept_demands *known_demands_hold(struct known_demands *known,
                                        const struct node_demands *demands)
{
    CLEANUP(strbuf_done) struct strbuf key;

    strbuf_init(&key);
    node_demands_key(demands, &key);
    struct kept_demands *kept = map_find(&known->by_key, (struct text){key.data, key.len});
    if (kept == NULL) {
        kept = kept_new(demands, &key);
        if (!has_room(known, kept)) {
            kept_free(kept);
            return NULL;
        }
        enter(known, kept);
    }
    must(kept->holders < UINT64_MAX);
    kept->holders++;
    return kept;
}

void known_demands_let_go(struct known_demands *known, struct kept_demands *kept)
{
    must(kept->holders > 0);
    if (--kept->holders > 0)
        return;
    must(map_take(&known->by_key, (struct text){kept->key, kept->key_bytes}) == kept);
    for (uint32_t i = 0; i < kept->demands->n_tolerations; i++)
        if (kept->known[i] != NULL)
            tolerations_drop(known->tolerations, kept->known[i]);
    known->bytes -= kept->bytes;
    known->large_bytes -= large(kept);
    kept_free(kept);
}
