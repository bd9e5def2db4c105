/*
 * A digest of a watch event of a Node, by which the informer recognizes a heartbeat. Called in its
 * thread, with each line of the watch. Everything counts except the values of four members, which
 * change while nothing else does, and which nobody reads:
 *
 *   metadata.resourceVersion                 only for the reflector, which gets it
 *   metadata.managedFields                   who wrote when
 *   status.images                            changes with each image that kubelet pulls or removes
 *   status.conditions[].lastHeartbeatTime    the heartbeat
 *
 * The rest is one text: a JSON value is never empty, so its absence shows which values were left
 * out, and two events with one text differ only in those values. All values pass the same reader
 * as in watch_decode() and node_decode(), so a line that it refuses has no digest.
 */
#include "milligpu/wire/json/json.h"

#include "kube_read.h"

struct digesting {
    struct json_reader in;
    const char *from; /* everything before is in the hash, or left out */
    struct siphash hash;
    const struct siphash_key *key;
    uint64_t name; /* 0: not met */
    const char *version;
};

/* 0 means none in tables. */
static uint64_t not_zero(uint64_t hash)
{
    return hash != 0 ? hash : 1;
}

uint64_t node_digest_name(struct text name, const struct siphash_key *key)
{
    struct siphash hash;

    siphash_init(&hash, key);
    siphash_add(&hash, name);
    return not_zero(siphash_end(&hash));
}

/* Adds all bytes up to this one. */
static void count_to(struct digesting *digesting, const char *end)
{
    must(digesting->from <= end && end <= digesting->in.end);
    siphash_add(&digesting->hash, (struct text){digesting->from, (size_t)(end - digesting->from)});
    digesting->from = end;
}

static void leave_out(struct digesting *digesting)
{
    struct text value;

    if (!json_read_raw(&digesting->in, &value))
        return; /* the error sticks */
    count_to(digesting, value.at);
    digesting->from = value.at + value.len;
}

static void digest_condition(struct digesting *digesting)
{
    struct text key;

    if (!json_read_object(&digesting->in))
        return;
    while (json_read_key(&digesting->in, &key))
        if (text_is(key, "lastHeartbeatTime"))
            leave_out(digesting);
        else
            (void)json_read_skip(&digesting->in); /* errors stick */
}

static void digest_status(struct digesting *digesting)
{
    struct text key;

    if (!json_read_object(&digesting->in))
        return;
    while (json_read_key(&digesting->in, &key)) {
        if (text_is(key, "images")) {
            leave_out(digesting);
        } else if (text_is(key, "conditions") && json_read_array(&digesting->in)) {
            while (json_read_element(&digesting->in))
                digest_condition(digesting);
        } else {
            (void)json_read_skip(&digesting->in);
        }
    }
}

static void digest_version(struct digesting *digesting)
{
    (void)json_read_peek(&digesting->in); /* moves to the first byte of the value */
    count_to(digesting, digesting->in.at);
    (void)json_read_cstring(&digesting->in, &digesting->version); /* errors stick */
    digesting->from = digesting->in.at;
}

static void digest_metadata(struct digesting *digesting)
{
    struct text key;
    struct text name;

    if (!json_read_object(&digesting->in))
        return;
    while (json_read_key(&digesting->in, &key))
        if (text_is(key, "resourceVersion"))
            digest_version(digesting);
        else if (text_is(key, "managedFields"))
            leave_out(digesting);
        else if (text_is(key, "name") && json_read_string(&digesting->in, &name))
            digesting->name = node_digest_name(name, digesting->key);
        else
            (void)json_read_skip(&digesting->in);
}

static void digest_object(struct digesting *digesting)
{
    struct text key;

    if (!json_read_object(&digesting->in))
        return;
    while (json_read_key(&digesting->in, &key))
        if (text_is(key, "metadata"))
            digest_metadata(digesting);
        else if (text_is(key, "status"))
            digest_status(digesting);
        else
            (void)json_read_skip(&digesting->in);
}

bool node_digest(struct text line, const struct siphash_key *key, struct arena *arena,
                 struct node_digest *out)
{
    struct digesting digesting = {.from = line.at, .key = key, .version = ""};
    struct text member;
    struct err err;

    must(line.len > 0);
    json_reader_init(&digesting.in, line, "event", arena, &err);
    siphash_init(&digesting.hash, key);
    (void)json_read_object(&digesting.in); /* the error sticks */
    while (json_read_key(&digesting.in, &member))
        if (text_is(member, "object"))
            digest_object(&digesting);
        else
            (void)json_read_skip(&digesting.in);
    if (json_reader_finish(&digesting.in) < 0 || digesting.name == 0)
        return false;
    count_to(&digesting, digesting.in.end);
    *out = (struct node_digest){digesting.name, not_zero(siphash_end(&digesting.hash)),
                                digesting.version};
    return true;
}
