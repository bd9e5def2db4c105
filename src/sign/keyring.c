/*
 * Keeps the keys of this milligpud, in memory and on disk. Memory changes only after the disk, so
 * that an error changes nothing. On disk the list is written first, then the private key is moved:
 * a start after a crash in between finishes the move. In order: the list, opening, reading and
 * signing, changes.
 */
#include "milligpu/sign/keyring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"
#include "milligpu/run/mutex.h"

#include "key_file.h"

enum { LIST_BYTES_MAX = 4096, LIST_WORDS = 4 };

static_assert(KEYRING_MAX * (9 + KEY_ID_BYTES + PUBLIC_KEY_TEXT_BYTES + 20) < LIST_BYTES_MAX,
              "each key has its line");

struct keyring {
    char *file;
    char *next_file;
    char *list_file;
    int64_t wait_ms;
    struct mutex lock; /* guards all below; only one thread changes them */
    struct signing_key *signer;
    struct signing_key *next; /* NULL if there is none */
    bool moved;               /* next's file is renamed to FILE, but perhaps not synced */
    /* signer's, next's, then the retiring ones; signer's is KEY_NEXT until it is published */
    struct key_entry entry[KEYRING_MAX];
    size_t count;
    char other[KEYRING_OTHERS][PUBLIC_KEY_TEXT_BYTES]; /* public keys of the ConfigMap */
    size_t n_others;
};

static const char *const state_names[] = {"next", "signing", "retiring"};

const char *key_state_name(enum key_state state)
{
    must((size_t)state < ARRAY_LEN(state_names));
    return state_names[state];
}

/* --- the list --- */

static bool read_state(struct text word, enum key_state *out)
{
    for (size_t i = 0; i < ARRAY_LEN(state_names); i++) {
        if (!text_is(word, state_names[i]))
            continue;
        *out = (enum key_state)i;
        return true;
    }
    return false;
}

/* Parses milliseconds, digits only. */
static bool read_since(struct text word, int64_t *out)
{
    int64_t since = 0;

    must(word.at != NULL);
    if (word.len == 0 || word.len > 15)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] < '0' || word.at[i] > '9')
            return false;
        since = since * 10 + (word.at[i] - '0');
    }
    *out = since;
    return true;
}

static bool read_line(struct text line, struct key_entry *out)
{
    struct text word[LIST_WORDS] = {TEXT(""), TEXT(""), TEXT(""), TEXT("")};
    size_t words = 0;

    *out = (struct key_entry){.published = true};
    while (words < LIST_WORDS && text_cut(&line, ' ', &word[words]))
        words++;
    if (words != LIST_WORDS || line.len > 0 || !read_state(word[0], &out->state) ||
        word[1].len != KEY_ID_BYTES - 1 || word[2].len != PUBLIC_KEY_TEXT_BYTES - 1 ||
        !read_since(word[3], &out->since_ms))
        return false;
    memcpy(out->id, word[1].at, word[1].len);
    memcpy(out->key, word[2].at, word[2].len);
    return public_key_has_id(word[2], out->id);
}

static const struct key_entry *entry_of(const struct key_entry *entry, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(entry[i].id, id) == 0)
            return &entry[i];
    return NULL;
}

/* A missing list counts as empty. */
static int list_read(const char *file, struct key_entry out[KEYRING_MAX], size_t *out_count,
                     struct err *err)
{
    CLEANUP(xfreep) char *content = NULL;
    size_t len = 0;
    struct text line;

    *out_count = 0;
    const int rc = file_read(file, LIST_BYTES_MAX, &content, &len, err);
    if (rc < 0)
        return rc == -(int)ERR_NOT_FOUND ? 0 : rc;
    struct text rest = {content, len};
    while (text_cut(&rest, '\n', &line)) {
        if (line.len == 0 && rest.len == 0)
            break;
        const bool fits = *out_count < KEYRING_MAX;
        if (!fits || !read_line(line, &out[*out_count]) ||
            entry_of(out, *out_count, out[*out_count].id) != NULL)
            return err_set(err, ERR_INVALID,
                           "%s line %zu: must be a state (next, signing, retiring), the id of a "
                           "key, the key and a time, for at most %d keys; without this file, the "
                           "former public keys stay in the ConfigMap",
                           file, *out_count + 1, KEYRING_MAX);
        ++*out_count;
    }
    return 0;
}

/* Leaves out a first key until it is published: a later start signs at once with a listed one. */
static int list_write(const struct keyring *keyring, const struct key_entry *entry, size_t count,
                      struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf out;

    must(count > 0 && count <= KEYRING_MAX);
    strbuf_init(&out);
    for (size_t i = 0; i < count; i++)
        if (i > 0 || entry[i].state == KEY_SIGNING)
            strbuf_printf(&out, "%s %s %s %lld\n", key_state_name(entry[i].state), entry[i].id,
                          entry[i].key, (long long)entry[i].since_ms);
    return file_replace(keyring->list_file, (struct text){out.data, out.len}, err);
}

/* --- opening --- */

static struct key_entry entry_new(const struct signing_key *key, enum key_state state,
                                  int64_t since_ms)
{
    struct key_entry entry = {.state = state, .since_ms = since_ms};

    memcpy(entry.id, signing_key_id(key), sizeof entry.id);
    memcpy(entry.key, signing_key_public(key), sizeof entry.key);
    return entry;
}

/* Leaves *out NULL if there is no such file. */
static int open_next(const char *file, struct signing_key **out, struct err *err)
{
    if (access(file, F_OK) < 0 && errno == ENOENT)
        return 0;
    return signing_key_open(file, out, err);
}

/* Moves next's file if the list has it as signing: a crash came before the move. */
static int finish_move(struct keyring *keyring, const struct key_entry *listed, size_t count,
                       struct err *err)
{
    if (keyring->next == NULL)
        return 0;
    const struct key_entry *entry = entry_of(listed, count, signing_key_id(keyring->next));
    if (entry == NULL || entry->state != KEY_SIGNING)
        return 0;
    bool moved = false;
    if (key_file_move(keyring->next_file, keyring->file, &moved, err) < 0)
        return err_same(err);
    signing_key_free(STEAL(keyring->next));
    return 0;
}

/* Adds the present keys, and listed ones without a file, which signed or were published. */
static int take_list(struct keyring *keyring, const struct key_entry *listed, size_t count,
                     struct key_times now, struct err *err)
{
    const struct signing_key *const key[] = {keyring->signer, keyring->next};

    for (size_t i = 0; i < ARRAY_LEN(key) && key[i] != NULL; i++) {
        const struct key_entry *was = entry_of(listed, count, signing_key_id(key[i]));
        const enum key_state state = i == 0 ? KEY_SIGNING : KEY_NEXT;
        const bool same = was != NULL && was->state == state;
        struct key_entry *entry = &keyring->entry[keyring->count++];
        *entry = entry_new(key[i], same ? state : KEY_NEXT, same ? was->since_ms : now.wall_ms);
        entry->published = same && i == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (entry_of(keyring->entry, keyring->count, listed[i].id) != NULL)
            continue;
        if (keyring->count == KEYRING_MAX)
            return err_set(err, ERR_TOO_LARGE, "%s: more than %d keys", keyring->list_file,
                           KEYRING_MAX);
        struct key_entry *entry = &keyring->entry[keyring->count++];
        *entry = listed[i];
        if (entry->state != KEY_RETIRING)
            entry->since_ms = now.wall_ms;
        entry->state = KEY_RETIRING;
        entry->due_ms = now.now_ms + KEY_RETIRE_WAITS * keyring->wait_ms;
    }
    return 0;
}

static char *name_with(const char *file, const char *end)
{
    struct strbuf name;

    must(file[0] != '\0');
    strbuf_init(&name);
    strbuf_str(&name, file);
    strbuf_str(&name, end);
    return name.data; /* owned by the caller */
}

static struct keyring *keyring_new(const struct keyring_rules *rules)
{
    struct keyring *keyring = xcalloc(1, sizeof *keyring);

    must(rules->wait_ms > 0);
    keyring->wait_ms = rules->wait_ms;
    keyring->file = name_with(rules->file, "");
    keyring->next_file = name_with(rules->file, ".next");
    keyring->list_file = name_with(rules->file, ".keys");
    mutex_init(&keyring->lock);
    return keyring;
}

static int keyring_load(struct keyring *keyring, struct key_times now, struct err *err)
{
    struct key_entry listed[KEYRING_MAX];
    size_t count = 0;

    if (list_read(keyring->list_file, listed, &count, err) < 0 ||
        open_next(keyring->next_file, &keyring->next, err) < 0 ||
        finish_move(keyring, listed, count, err) < 0 ||
        signing_key_open(keyring->file, &keyring->signer, err) < 0)
        return err_same(err);
    /* An operator has copied next to FILE: it is not its own successor. */
    if (keyring->next != NULL &&
        strcmp(signing_key_id(keyring->next), signing_key_id(keyring->signer)) == 0) {
        (void)unlink(keyring->next_file); /* on failure the next start ignores it again */
        signing_key_free(STEAL(keyring->next));
    }
    return take_list(keyring, listed, count, now, err);
}

int keyring_open(const struct keyring_rules *rules, struct key_times now, struct keyring **out,
                 struct err *err)
{
    struct keyring *keyring = keyring_new(rules);
    const int rc = keyring_load(keyring, now, err);

    if (rc < 0)
        keyring_free(keyring);
    else
        *out = keyring;
    return rc;
}

int keyring_check(const char *file, struct err *err)
{
    CLEANUP(xfreep) char *next = name_with(file, ".next");
    CLEANUP(xfreep) char *list = name_with(file, ".keys");
    struct key_entry listed[KEYRING_MAX];
    size_t count;

    if (signing_key_check(file, err) < 0 || signing_key_check(next, err) < 0)
        return err_same(err);
    return list_read(list, listed, &count, err);
}

void keyring_free(struct keyring *keyring)
{
    if (keyring == NULL)
        return;
    signing_key_free(keyring->signer);
    signing_key_free(keyring->next);
    mutex_done(&keyring->lock);
    xfree(keyring->file);
    xfree(keyring->next_file);
    xfree(keyring->list_file);
    xfree(keyring);
}

/* --- reading and signing --- */

bool keyring_may_sign(struct keyring *keyring)
{
    mutex_lock(&keyring->lock);
    const bool may = keyring->entry[0].state == KEY_SIGNING;
    mutex_unlock(&keyring->lock);
    return may;
}

int keyring_sign(struct keyring *keyring, const struct signed_facts *what,
                 char out[SIGNATURE_TEXT_BYTES], struct err *err)
{
    mutex_lock(&keyring->lock);
    must(keyring->entry[0].state == KEY_SIGNING);
    const int rc = signing_sign(keyring->signer, what, out, err);
    mutex_unlock(&keyring->lock);
    return rc;
}

/* Copies the public key with this id; false if unknown. */
static bool key_of(struct keyring *keyring, const char *id, char out[PUBLIC_KEY_TEXT_BYTES])
{
    mutex_lock(&keyring->lock);
    const struct key_entry *entry = entry_of(keyring->entry, keyring->count, id);
    const char *key = entry != NULL ? entry->key : NULL;
    must(keyring->n_others <= KEYRING_OTHERS);
    for (size_t i = 0; i < keyring->n_others && key == NULL; i++)
        if (public_key_has_id(text_of(keyring->other[i]), id))
            key = keyring->other[i];
    if (key != NULL)
        memcpy(out, key, PUBLIC_KEY_TEXT_BYTES);
    mutex_unlock(&keyring->lock);
    return key != NULL;
}

bool keyring_has_signed(struct keyring *keyring, struct text signature,
                        const struct signed_facts *what)
{
    char id[KEY_ID_BYTES];
    char key[PUBLIC_KEY_TEXT_BYTES];

    must(what != NULL);
    return signature_key_id(signature, id) && key_of(keyring, id, key) &&
           signature_is_good(text_of(key), signature, what);
}

void keyring_learn(struct keyring *keyring, const char *const *key, size_t count)
{
    must(count == 0 || key != NULL);
    mutex_lock(&keyring->lock);
    keyring->n_others = 0;
    for (size_t i = 0; i < count && keyring->n_others < KEYRING_OTHERS; i++) {
        if (strlen(key[i]) != PUBLIC_KEY_TEXT_BYTES - 1)
            continue; /* not a key */
        memcpy(keyring->other[keyring->n_others++], key[i], PUBLIC_KEY_TEXT_BYTES);
    }
    mutex_unlock(&keyring->lock);
}

size_t keyring_list(struct keyring *keyring, struct key_entry out[KEYRING_MAX])
{
    mutex_lock(&keyring->lock);
    const size_t count = keyring->count;
    must(count > 0 && count <= KEYRING_MAX);
    memcpy(out, keyring->entry, count * sizeof *out);
    mutex_unlock(&keyring->lock);
    return count;
}

/* --- changes --- */

/* Copies the entries, already on disk, into memory. */
static void commit(struct keyring *keyring, const struct key_entry *entry, size_t count)
{
    must(count > 0 && count <= KEYRING_MAX);
    mutex_lock(&keyring->lock);
    memcpy(keyring->entry, entry, count * sizeof *entry);
    keyring->count = count;
    mutex_unlock(&keyring->lock);
}

int keyring_replace(struct keyring *keyring, struct key_times now, struct err *err)
{
    struct key_entry entry[KEYRING_MAX];
    const size_t count = keyring_list(keyring, entry);
    struct signing_key *next = NULL;

    if (entry[0].state != KEY_SIGNING || keyring->next != NULL)
        return err_set(err, ERR_CONFLICT, "key %s does not sign yet",
                       entry[keyring->next != NULL].id);
    if (count == KEYRING_MAX)
        return err_set(err, ERR_CONFLICT,
                       "%d former keys are still published, for the pods that they signed; "
                       "restart the pods of one of them, or revoke it: milligpuctl keys, "
                       "milligpuctl revoke-key KEYID",
                       KEYRING_MAX - 1);
    if (signing_key_open(keyring->next_file, &next, err) < 0)
        return err_same(err);
    memmove(&entry[2], &entry[1], (count - 1) * sizeof *entry);
    entry[1] = entry_new(next, KEY_NEXT, now.wall_ms);
    if (list_write(keyring, entry, count + 1, err) < 0) {
        (void)unlink(keyring->next_file); /* if it stays, a start uses it, which is harmless */
        signing_key_free(next);
        return err_same(err);
    }
    keyring->next = next; /* no other thread uses next */
    commit(keyring, entry, count + 1);
    return 0;
}

int keyring_published(struct keyring *keyring, const struct key_entry *key, size_t count,
                      struct key_times now, struct err *err)
{
    struct key_entry entry[KEYRING_MAX];
    const size_t have = keyring_list(keyring, entry);
    bool begins = false;

    for (size_t i = 0; i < have; i++) {
        if (entry[i].published || entry_of(key, count, entry[i].id) == NULL)
            continue;
        entry[i].published = true;
        if (i == 0) {
            entry[i].state = KEY_SIGNING;
            entry[i].since_ms = now.wall_ms;
            begins = true;
        } else {
            entry[i].due_ms = now.now_ms + keyring->wait_ms;
        }
    }
    if (begins && list_write(keyring, entry, have, err) < 0)
        return err_same(err);
    commit(keyring, entry, have);
    return 0;
}

/* Swaps entry[0] and entry[1]: the next key signs, and the signing key is retiring. */
static void turn(struct key_entry *entry, struct key_times now, int64_t wait_ms)
{
    const struct key_entry before = entry[0];

    must(entry[1].state == KEY_NEXT && entry[1].published);
    entry[0] = entry[1];
    entry[0].state = KEY_SIGNING;
    entry[0].due_ms = 0;
    entry[0].since_ms = now.wall_ms;
    entry[1] = before;
    entry[1].state = KEY_RETIRING;
    entry[1].due_ms = now.now_ms + KEY_RETIRE_WAITS * wait_ms;
    entry[1].since_ms = now.wall_ms;
}

int keyring_step(struct keyring *keyring, struct key_times now, struct err *err)
{
    struct key_entry entry[KEYRING_MAX];
    const size_t count = keyring_list(keyring, entry);

    if (keyring->next == NULL || entry[0].state != KEY_SIGNING || !entry[1].published ||
        now.now_ms < entry[1].due_ms)
        return 0;
    turn(entry, now, keyring->wait_ms);
    if (list_write(keyring, entry, count, err) < 0 ||
        key_file_move(keyring->next_file, keyring->file, &keyring->moved, err) < 0)
        return err_same(err);
    keyring->moved = false;
    mutex_lock(&keyring->lock);
    struct signing_key *before = keyring->signer;
    keyring->signer = STEAL(keyring->next);
    memcpy(keyring->entry, entry, count * sizeof *entry);
    mutex_unlock(&keyring->lock);
    signing_key_free(before);
    return 0;
}

int keyring_forget(struct keyring *keyring, const char *id, struct err *err)
{
    struct key_entry entry[KEYRING_MAX];
    size_t count = keyring_list(keyring, entry);
    const struct key_entry *gone = entry_of(entry, count, id);

    must(gone != NULL && gone->state == KEY_RETIRING);
    const size_t at = (size_t)(gone - entry);
    memmove(&entry[at], &entry[at + 1], (--count - at) * sizeof *entry);
    if (list_write(keyring, entry, count, err) < 0)
        return err_same(err);
    commit(keyring, entry, count);
    return 0;
}
