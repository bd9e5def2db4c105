/*
 * A hash table of interned names that grows and shrinks by one bucket at a time (linear hashing): a
 * full rehash of a large cluster would block the writer's batch for milliseconds. Called by the
 * owner of the table; references are counted in any thread. Parts: references, buckets, growing and
 * shrinking, sweeping, sets.
 */
#include "milligpu/core/facts/names.h"

#include <string.h>

#include "milligpu/base/alloc.h"

enum {
    SEGMENT_BUCKETS = 64,          /* allocated together */
    BUCKETS_MIN = SEGMENT_BUCKETS, /* in an empty table */
    SEGMENTS_MIN = 8,              /* initial capacity */
    SWEEP_EACH = 4,                /* buckets scanned per name added or released */
};

/*
 * Buckets below `buckets - round` and from `round` on use one more bit of the hash than the buckets
 * between. There are at least count buckets and, after a sweep, at most twice as many.
 */
struct names {
    struct atom ***segment; /* of SEGMENT_BUCKETS lists each */
    size_t capacity;        /* of segment[] */
    size_t buckets;
    size_t round; /* largest power of two <= buckets */
    size_t count;
    size_t bytes;       /* of the atoms */
    size_t due;         /* names added or released since the last sweep */
    size_t next_bucket; /* first bucket of the next sweep */
};

/*
 * References
 */

/* Only the count of an atom is mutable. */
static atomic_uint *atom_refs_of(const struct atom *atom)
{
    must(atom != NULL);
    return (atomic_uint *)(uintptr_t)&atom->refs;
}

/* Constants are not counted: they may be in read-only memory. */
static bool is_constant(const struct atom *atom)
{
    return atomic_load_explicit(atom_refs_of(atom), memory_order_relaxed) == 0;
}

const struct atom *atom_ref(const struct atom *atom)
{
    if (atom == NULL || is_constant(atom))
        return atom;
    const unsigned before = atomic_fetch_add_explicit(atom_refs_of(atom), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return atom;
}

void atom_unref(const struct atom *atom)
{
    if (atom == NULL || is_constant(atom))
        return;
    const unsigned before = atomic_fetch_sub_explicit(atom_refs_of(atom), 1, memory_order_acq_rel);
    must(before > 0);
    if (before == 1)
        xfree((void *)(uintptr_t)atom);
}

uint32_t atom_mark(const struct atom *atom)
{
    must(atom != NULL);
    must(!is_constant(atom) || atom->mark == 0);
    return atom->mark;
}

void atom_set_mark(const struct atom *atom, uint32_t mark)
{
    must(!is_constant(atom));
    must(atom->text[atom->len] == '\0');
    ((struct atom *)(uintptr_t)atom)->mark = mark;
}

static size_t atom_bytes(size_t len)
{
    must(len <= UINT32_MAX);
    return offsetof(struct atom, text) + len + 1;
}

/* Acquire: synchronizes with former holders before the memory is freed. */
static bool is_unheld(const struct atom *atom)
{
    const unsigned refs = atomic_load_explicit(atom_refs_of(atom), memory_order_acquire);
    must(refs > 0);
    must(atom->text[atom->len] == '\0');
    return refs == 1;
}

/*
 * Buckets
 */

static struct atom **names_bucket(const struct names *names, size_t bucket)
{
    must(bucket < names->buckets);
    must(names->buckets <= names->capacity * SEGMENT_BUCKETS);
    return &names->segment[bucket / SEGMENT_BUCKETS][bucket % SEGMENT_BUCKETS];
}

static struct atom **names_bucket_of(const struct names *names, uint32_t hash)
{
    const size_t bucket = hash & (2 * names->round - 1);

    must((names->round & (names->round - 1)) == 0);
    must(names->round <= names->buckets && names->buckets < 2 * names->round);
    return names_bucket(names, bucket < names->buckets ? bucket : bucket - names->round);
}

static void names_push(struct names *names, struct atom *atom)
{
    struct atom **bucket = names_bucket_of(names, atom->hash);

    must(atom->refs > 0);
    must(atom->next == NULL);
    atom->next = *bucket;
    *bucket = atom;
}

/* Moves the atoms of a list into their current buckets. */
static void names_push_all(struct names *names, struct atom *list)
{
    must(names->buckets >= BUCKETS_MIN);
    must(list == NULL || list->refs > 0);
    while (list != NULL) {
        struct atom *atom = list;
        list = atom->next;
        atom->next = NULL;
        names_push(names, atom);
    }
}

/* Empties a bucket and returns its list. */
static struct atom *names_empty(struct names *names, size_t bucket)
{
    struct atom **at = names_bucket(names, bucket);
    struct atom *list = *at;

    must(list == NULL || list->refs > 0);
    *at = NULL;
    return list;
}

struct names *names_new(void)
{
    struct names *names = xmalloc(sizeof *names);
    *names = (struct names){.capacity = SEGMENTS_MIN, .buckets = BUCKETS_MIN, .round = BUCKETS_MIN};
    names->segment = xcalloc(SEGMENTS_MIN, sizeof *names->segment);
    names->segment[0] = xcalloc(SEGMENT_BUCKETS, sizeof *names->segment[0]);
    must(names->count == 0);
    must((names->round & (names->round - 1)) == 0);
    return names;
}

void names_free(struct names *names)
{
    if (names == NULL)
        return;
    must(names->buckets >= BUCKETS_MIN);
    must(names->count <= names->buckets);
    for (size_t i = 0; i < names->buckets; i++) {
        for (struct atom *atom = names_empty(names, i), *next; atom != NULL; atom = next) {
            next = atom->next;
            atom_unref(atom);
        }
    }
    for (size_t i = 0; i < names->buckets; i += SEGMENT_BUCKETS)
        xfree(names->segment[i / SEGMENT_BUCKETS]);
    xfree(names->segment);
    xfree(names);
}

static struct atom *names_look_up(const struct names *names, struct text text, uint32_t hash)
{
    struct atom *atom = *names_bucket_of(names, hash);

    must(atom == NULL || atom->refs > 0);
    while (atom != NULL && (atom->hash != hash || !text_eq(atom_text(atom), text)))
        atom = atom->next;
    return atom;
}

const struct atom *names_find(const struct names *names, struct text text)
{
    must(names != NULL);
    must(text.at != NULL || text.len == 0);
    return names_look_up(names, text, text_hash(text));
}

/*
 * Growing and shrinking
 */

/* Adds a bucket: splits the names of one bucket between it and the new bucket. */
static void names_split(struct names *names)
{
    const size_t segment = names->buckets / SEGMENT_BUCKETS;
    const size_t from = names->buckets - names->round;

    if (names->buckets % SEGMENT_BUCKETS == 0) {
        names->segment = xgrow(names->segment, segment, &names->capacity, sizeof *names->segment);
        names->segment[segment] = xcalloc(SEGMENT_BUCKETS, sizeof *names->segment[segment]);
    }
    struct atom *list = names_empty(names, from);
    names->buckets++;
    if (names->buckets == 2 * names->round)
        names->round *= 2;
    names_push_all(names, list);
    must(names->buckets - 1 < names->capacity * SEGMENT_BUCKETS);
}

void names_reserve(struct names *names, size_t count)
{
    must(names != NULL);
    must(count <= UINT32_MAX);
    while (names->buckets < count)
        names_split(names);
    must(names->count <= names->buckets);
}

/* Removes the last bucket: merges it into the bucket that it was split from. */
static void names_join(struct names *names)
{
    must(names->buckets > BUCKETS_MIN);
    struct atom *list = names_empty(names, names->buckets - 1);

    if (names->buckets == names->round)
        names->round /= 2;
    names->buckets--;
    names_push_all(names, list);
    if (names->buckets % SEGMENT_BUCKETS != 0)
        return;
    const size_t segments = names->buckets / SEGMENT_BUCKETS;
    xfree(names->segment[segments]);
    if (names->capacity == SEGMENTS_MIN || segments > names->capacity / 4)
        return;
    names->capacity /= 2;
    names->segment = xrealloc(names->segment, names->capacity, sizeof *names->segment);
    must(segments <= names->capacity);
}

const struct atom *names_intern(struct names *names, struct text text)
{
    must(names != NULL);

    const uint32_t hash = text_hash(text);
    const struct atom *known = names_look_up(names, text, hash);
    if (known != NULL)
        return known;

    struct atom *atom = xmalloc(atom_bytes(text.len));
    atom->next = NULL;
    atomic_init(&atom->refs, 1);
    atom->hash = hash;
    atom->len = (uint32_t)text.len;
    atom->mark = 0;
    if (text.len > 0)
        memcpy(atom->text, text.at, text.len);
    atom->text[text.len] = '\0';
    names_push(names, atom);
    names->count++;
    names->bytes += atom_bytes(text.len);
    names->due++;
    if (names->count > names->buckets)
        names_split(names);
    must(names->count <= names->buckets);
    return atom;
}

/*
 * Sweeping
 */

void names_let_go(struct names *names, size_t count)
{
    must(names != NULL);
    must(names->due <= SIZE_MAX / 16 && count <= UINT32_MAX);
    names->due += count;
}

static void names_sweep_bucket(struct names *names, size_t bucket)
{
    struct atom **at = names_bucket(names, bucket);

    while (*at != NULL) {
        struct atom *atom = *at;
        if (!is_unheld(atom)) {
            at = &atom->next;
            continue;
        }
        must(names->count > 0 && atom->mark == 0);
        must(names->bytes >= atom_bytes(atom->len));
        *at = atom->next;
        names->count--;
        names->bytes -= atom_bytes(atom->len);
        atom_unref(atom);
    }
}

void names_sweep(struct names *names, size_t more)
{
    must(names != NULL);
    must(names->due <= SIZE_MAX / 8 && more <= SIZE_MAX / 4);

    const size_t buckets = names->buckets;
    const size_t looks = SWEEP_EACH * names->due + more;
    names->due = 0;
    for (size_t i = 0; i < looks && i < buckets; i++) {
        if (names->next_bucket >= names->buckets)
            names->next_bucket = 0;
        names_sweep_bucket(names, names->next_bucket++);
        while (names->buckets > BUCKETS_MIN && 2 * names->count < names->buckets)
            names_join(names);
    }
    must(names->count <= names->buckets);
}

size_t names_count(const struct names *names)
{
    must(names != NULL);
    must(names->count <= names->buckets);
    return names->count;
}

size_t names_bytes(const struct names *names)
{
    must(names != NULL);
    const size_t segments = (names->buckets + SEGMENT_BUCKETS - 1) / SEGMENT_BUCKETS;
    must(segments <= names->capacity);
    return sizeof *names + names->capacity * sizeof *names->segment +
           segments * SEGMENT_BUCKETS * sizeof *names->segment[0] + names->bytes;
}

/*
 * Sets
 */

static atomic_uint *name_set_refs_of(const struct name_set *set)
{
    must(set != NULL);
    return (atomic_uint *)(uintptr_t)&set->refs;
}

struct name_set *name_set_new(uint32_t most)
{
    struct name_set *set = xmalloc(sizeof *set + most * sizeof set->name[0]);
    atomic_init(&set->refs, 1);
    set->count = 0;
    must(most > 0);
    must((uintptr_t)set->name % _Alignof(const struct atom *) == 0);
    return set;
}

void name_set_add(struct name_set *set, const struct atom *name)
{
    must(set->refs == 1);
    must(set->count < UINT32_MAX);
    if (name != NULL && (set->count == 0 || set->name[set->count - 1] != name))
        set->name[set->count++] = name;
}

const struct name_set *name_set_hold(struct name_set *take_set, const struct name_set *former)
{
    const size_t bytes = take_set->count * sizeof(struct atom *);

    must(take_set->refs == 1);
    must(take_set->count > 0);
    if (former != NULL && former->count == take_set->count &&
        memcmp(former->name, take_set->name, bytes) == 0) {
        xfree(take_set);
        const unsigned before =
            atomic_fetch_add_explicit(name_set_refs_of(former), 1, memory_order_relaxed);
        must(before > 0 && before < UINT32_MAX);
        return former;
    }
    for (uint32_t i = 0; i < take_set->count; i++)
        (void)atom_ref(take_set->name[i]);
    return xrealloc(take_set, sizeof *take_set + bytes, 1);
}

void name_set_unref(const struct name_set *set)
{
    const unsigned before =
        atomic_fetch_sub_explicit(name_set_refs_of(set), 1, memory_order_acq_rel);
    must(before > 0);
    must(set->count > 0);
    if (before > 1)
        return;
    for (uint32_t i = 0; i < set->count; i++)
        atom_unref(set->name[i]);
    xfree((void *)(uintptr_t)set);
}
