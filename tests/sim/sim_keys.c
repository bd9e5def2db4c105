/*
 * keys - signing keys that an operator has replaced, or that are lost with the ledger.
 *
 *   a Binding    is signed by a key that the ConfigMap has had for key_wait_s at least; a key that
 *                was made because the files were lost may sign at once
 *   a key        stays in the ConfigMap while a pod lives that it signed, and not for ever, unless
 *                a request that was late brings it back, of use to nobody
 *   one that     an operator has revoked is in the ConfigMap no more, signs nothing, and proves
 *                nothing that it signed before
 *   no Binding   is without a signature, but to a node without an agent after the files were lost
 *   an agent     believes each allocation that milligpud bound, whatever was replaced meanwhile,
 *                since its mount is less than key_wait_s behind; of a lost key's successor it may
 *                know as late as that
 */
#include "sim_keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "milligpu/base/annotations.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/sync/key_publisher.h"

#include "sim_run.h"
#include "support/disk.h"

#define MAPS "/api/v1/namespaces/ns/configmaps"
#define MAP  MAPS "/" KEYS_CONFIGMAP

enum { TAKEN_WAITS = KEY_RETIRE_WAITS + 4, SETTLED_MS = 600000 };

/* --- what the ConfigMap says --- */

static struct sim_key *key_of(struct sim_keys *keys, const char *id)
{
    for (uint32_t i = 0; i < keys->n_keys; i++)
        if (strcmp(keys->key[i].id, id) == 0)
            return &keys->key[i];
    return NULL;
}

static void key_comes(struct sim *sim, const char *id, const char *text)
{
    struct sim_keys *keys = &sim->keys;
    struct sim_key *key = key_of(keys, id);

    if (key != NULL && key->until_ms == INT64_MAX)
        return;
    if (key != NULL) {
        key->until_ms = INT64_MAX;
        key->back = true;
        sim_met("key/comes_back");
        return;
    }
    if (keys->n_keys == SIM_KEYS)
        sim_violation(sim, "the simulator's own table of keys is full");
    key = &keys->key[keys->n_keys++];
    *key = (struct sim_key){
        .from_ms = sim->now_ms, .until_ms = INT64_MAX, .alone = strcmp(id, keys->alone) == 0};
    (void)snprintf(key->id, sizeof key->id, "%s", id);
    (void)snprintf(key->text, sizeof key->text, "%s", text);
    sim_met(key->alone ? "key/new" : "key/next");
    sim_say(sim, "key %u is published", keys->n_keys);
}

static void key_goes(struct sim *sim, struct sim_key *key)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && strcmp(pod->signed_by, key->id) == 0 && !key->revoked)
            sim_violation(sim, "the key that signed for p%u is taken away, and it lives",
                          pod->name);
    }
    key->until_ms = sim->now_ms;
    sim_met("key/taken_away");
    sim_say(sim, "key %u is taken away", (uint32_t)(key - sim->keys.key) + 1);
}

static void effect(void *user, const struct sim_effect *what)
{
    struct sim *sim = user;
    struct strbuf out;
    const char *id;
    json_t *value;

    if (strcmp(what->method, "GET") == 0 || what->status >= 300)
        return;
    strbuf_init(&out);
    must(fake_apiserver_request(sim->keys.fake, "GET", MAP, TEXT(""), &out) == 200);
    json_t *map = json_loadb(out.data, out.len, 0, NULL);
    json_t *data = json_object_get(map, "data");
    json_object_foreach (data, id, value)
        key_comes(sim, id, json_string_value(value));
    for (uint32_t i = 0; i < sim->keys.n_keys; i++)
        if (sim->keys.key[i].until_ms == INT64_MAX &&
            json_object_get(data, sim->keys.key[i].id) == NULL)
            key_goes(sim, &sim->keys.key[i]);
    json_decref(map);
    strbuf_done(&out);
}

static void request(struct sim *sim, const char *method, const char *path, json_t *take_body,
                    int expected)
{
    struct strbuf out;
    char *body = json_dumps(take_body, JSON_COMPACT);

    strbuf_init(&out);
    const int status = sim_api_request(sim->keys.api, method, path, body, &out);
    if (status != expected)
        sim_violation(sim, "the fake API server does not take a ConfigMap: %d", status);
    strbuf_done(&out);
    free(body);
    json_decref(take_body);
}

/* --- the files --- */

static void forget_files(const struct sim *sim)
{
    static const char *const end[] = {"", ".next", ".keys"};
    char path[320];

    for (size_t i = 0; i < ARRAY_LEN(end); i++) {
        (void)snprintf(path, sizeof path, "%s%s", sim->keys.file, end[i]);
        (void)unlink(path);
    }
}

static struct key_times now_of(const struct sim *sim)
{
    return (struct key_times){.now_ms = sim->now_ms, .wall_ms = sim->wall_ms};
}

/* A start that fails because of the disk is tried again when that is well. */
static struct keyring *open_keyring(struct sim *sim)
{
    const struct keyring_rules rules = {.file = sim->keys.file, .wait_ms = sim->keys.wait_ms};
    struct keyring *keyring = NULL;
    struct err err;

    if (keyring_open(&rules, now_of(sim), &keyring, &err) == 0)
        return keyring;
    if (sim->daemon.disk_heals_ms == 0)
        sim_violation(sim, "the signing keys do not open, and the disk is well: %s", err.text);
    disk_fail(0, 0, 0, false);
    sim->daemon.disk_heals_ms = 0;
    sim_met("key/disk");
    if (keyring_open(&rules, now_of(sim), &keyring, &err) < 0)
        sim_violation(sim, "the signing keys do not open: %s", err.text);
    return keyring;
}

/* The seed of RFC 8032, 7.1, TEST 2, as PKCS#8: each run begins with the same key. */
static void write_first(const struct sim *sim)
{
    static const char pem[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
                              "-----END PRIVATE KEY-----\n";
    const int fd = open(sim->keys.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd >= 0 && write(fd, pem, sizeof pem - 1) == (ssize_t)sizeof pem - 1);
    (void)close(fd);
}

/* It was published long ago: the files know it, and each mount shows it. */
static void publish_first(struct sim *sim)
{
    struct keyring *keyring = open_keyring(sim);
    struct key_entry key[KEYRING_MAX];
    struct err err;

    must(keyring_list(keyring, key) == 1);
    must(keyring_published(keyring, key, 1, now_of(sim), &err) == 0 && keyring_may_sign(keyring));
    keyring_free(keyring);
    request(sim, "POST", MAPS,
            json_pack("{s:s,s:s,s:{s:s},s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap",
                      "metadata", "name", KEYS_CONFIGMAP, "data", key[0].id, key[0].key),
            201);
    must(sim->keys.n_keys == 1);
    sim->keys.key[0].from_ms = INT64_MIN / 2;
}

void keys_begin(struct sim *sim, const char *folder)
{
    static const int64_t waits[] = {20000, 60000, 120000};
    struct sim_keys *keys = &sim->keys;
    struct draw draw = {.state = sim->seed ^ 0x5167ED};

    keys->wait_ms = waits[draw_below(&draw, ARRAY_LEN(waits))];
    for (uint32_t n = 0; n < MODEL_NODES; n++)
        keys->lag_ms[n] =
            draw_chance(&draw, 500) ? keys->wait_ms - 1 : draw_between(&draw, 0, keys->wait_ms - 1);
    (void)snprintf(keys->file, sizeof keys->file, "%s/signing.key", folder);
    keys->fake = fake_apiserver_new("keys");
    keys->api = sim_api_new(&(struct sim_api_rules){
        .seed = draw_next(&draw), .fake = keys->fake, .user = sim, .effect = effect});
    forget_files(sim);
    write_first(sim);
    publish_first(sim);
}

void keys_end(struct sim *sim)
{
    if (sim->keys.api == NULL)
        return;
    forget_files(sim);
    sim_api_free(sim->keys.api);
    fake_apiserver_free(sim->keys.fake);
}

static void lose(struct sim *sim, bool all)
{
    if (all)
        forget_files(sim);
    else
        (void)unlink(sim->keys.file); /* the public keys are still listed */
    sim->keys.lost = true;
    sim_met(all ? "key/all_lost" : "key/lost");
    sim_say(sim, "the signing key is lost%s", all ? ", and all that was known of keys" : "");
}

/* The proof of an edited pod's allocation is read before its pod is. */
static bool is_about_to_read(const struct sim *sim)
{
    return sim->rules.raises && sim->daemon.rebuilds;
}

void keys_lose(struct sim *sim)
{
    struct draw draw = {.state = sim->seed ^ ((uint64_t)sim->now_ms << 20)};

    if (sim->keys.api != NULL && sim->rules.raises)
        sim_api_faults(sim->keys.api, 0);
    if (sim->keys.api != NULL && draw_chance(&draw, 700))
        lose(sim, true);
}

/* --- milligpud's part --- */

void keys_boot(struct sim *sim)
{
    struct key_entry key[KEYRING_MAX];

    if (sim->keys.api == NULL)
        return;
    struct draw draw = {.state = sim->seed ^ ((uint64_t)sim->now_ms << 21)};
    if (sim->rules.loses && !sim->settling && draw_chance(&draw, 200)) {
        lose(sim, draw_chance(&draw, 300)); /* and not the ledger */
        if (!is_about_to_read(sim) && draw_chance(&draw, 500))
            sim_api_outage(sim->keys.api, sim->now_ms + draw_between(&draw, 1000, 40000));
    }
    sim->keys.keyring = open_keyring(sim);
    (void)keyring_list(sim->keys.keyring, key);
    if (key[0].state == KEY_SIGNING)
        return;
    if (!sim->keys.lost)
        sim_violation(sim, "the first key does not sign after a restart");
    memcpy(sim->keys.alone, key[0].id, sizeof sim->keys.alone);
}

void keys_start(struct sim *sim)
{
    struct sim_keys *keys = &sim->keys;

    if (keys->api == NULL)
        return;
    sim_api_ops(keys->api, &keys->ops, &keys->other_ops);
    keys->publisher = key_publisher_new(&sim->daemon.app, &keys->ops);
}

void keys_stop(struct sim *sim)
{
    struct sim_keys *keys = &sim->keys;

    if (keys->keyring == NULL)
        return;
    key_publisher_free(STEAL(keys->publisher));
    keys->ops.free(keys->ops.ctx);
    keys->other_ops.free(keys->other_ops.ctx);
    sim_api_gone(keys->api);
    keyring_free(STEAL(keys->keyring));
}

static void to_publisher(void *user, const struct kube_answer *answer)
{
    struct sim *sim = user;
    must(key_publisher_answer(sim->keys.publisher, sim->now_ms, answer));
}

void keys_turn(struct sim *sim)
{
    struct sim_keys *keys = &sim->keys;

    if (keys->publisher == NULL || disk_is_cut())
        return; /* a process that is already dead */
    (void)key_publisher_step(keys->publisher, sim->now_ms);
    keys->ops.poll(keys->ops.ctx, 0, sim, to_publisher);
}

void keys_now(struct sim *sim)
{
    if (sim->keys.api != NULL)
        sim_api_now(sim->keys.api, sim->now_ms);
}

/* --- what happens to it --- */

void keys_calm(struct sim *sim)
{
    if (sim->keys.api != NULL)
        sim_api_faults(sim->keys.api, 0);
}

/* An operator names the key that signs, as kubectl shows it, or one that signs no more. */
static void replace(struct sim *sim, struct draw *draw)
{
    struct key_entry key[KEYRING_MAX];
    const char *id = sim->keys.key[draw_below(draw, sim->keys.n_keys)].id;

    if (sim->keys.keyring == NULL)
        return;
    (void)keyring_list(sim->keys.keyring, key);
    if (draw_chance(draw, 900))
        id = key[0].id;
    request(sim, "PATCH", MAP,
            json_pack("{s:{s:{s:s}}}", "metadata", "annotations", ANNOTATION_REPLACE_KEY, id), 200);
    sim_met("key/replaced");
    sim_say(sim, "an operator replaces a key");
}

/* A living pod that was edited needs its signature when the ledger is lost. */
static bool is_needed(const struct sim *sim, const struct sim_key *key)
{
    for (uint32_t i = 0; sim->rules.loses && i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && pod->unlike && strcmp(pod->signed_by, key->id) == 0)
            return true;
    }
    return false;
}

static bool signs(const struct sim *sim, const char *id)
{
    struct key_entry key[KEYRING_MAX];
    const size_t count = keyring_list(sim->keys.keyring, key);

    for (size_t i = 0; i < count; i++)
        if (strcmp(key[i].id, id) == 0)
            return key[i].state != KEY_RETIRING;
    return false;
}

/* As milligpuctl writes it, which refuses that for a key that signs. */
static void revoke_key(struct sim *sim, struct draw *draw)
{
    struct sim_key *key = &sim->keys.key[draw_below(draw, sim->keys.n_keys)];
    char mark[sizeof ANNOTATION_REVOKED_KEY + KEY_ID_BYTES];

    if (sim->keys.keyring == NULL || key->until_ms != INT64_MAX || signs(sim, key->id) ||
        is_needed(sim, key))
        return;
    key->revoked = true;
    (void)snprintf(mark, sizeof mark, ANNOTATION_REVOKED_KEY "%s", key->id);
    sim_say(sim, "an operator revokes key %u", (uint32_t)(key - sim->keys.key) + 1);
    request(sim, "PATCH", MAP,
            json_pack("{s:{s:n},s:{s:{s:s}}}", "data", key->id, "metadata", "annotations", mark,
                      "2026-01-01T00:00:00Z"),
            200);
    sim_met("key/revoked");
}

void keys_trouble(struct sim *sim, uint32_t step)
{
    struct draw draw = {.state = sim->seed * 0xD1342543DE82EF95U + step};

    if (sim->keys.api == NULL || sim->rules.key_per_mille == 0)
        return;
    if (draw_chance(&draw, 100) && !is_about_to_read(sim))
        sim_api_faults(sim->keys.api, draw_below(&draw, 1 + 2 * sim->rules.faults_per_mille));
    if (draw_chance(&draw, sim->rules.key_per_mille))
        replace(sim, &draw);
    if (draw_chance(&draw, sim->rules.key_per_mille))
        revoke_key(sim, &draw);
}

/* --- agents --- */

bool keys_believes(struct sim *sim, const struct model_node *node, const struct model_pod *pod)
{
    struct sim_keys *keys = &sim->keys;
    const size_t n = (size_t)(node - sim->model.node);
    const int64_t shown_ms = sim->now_ms - keys->lag_ms[n];
    const struct sim_key *key = key_of(keys, pod->signed_by);

    if (key == NULL) {
        sim_met("stay/not_signed");
        return false;
    }
    if (key + 1 < keys->key + keys->n_keys)
        sim_met("stay/earlier_key");
    if (key->from_ms > shown_ms && key->alone) {
        sim_met("stay/new_key");
        return false;
    }
    if (key->revoked && key->until_ms <= shown_ms) {
        sim_met("stay/revoked_key");
        return false;
    }
    if (key->from_ms > shown_ms || key->until_ms <= shown_ms)
        sim_violation(sim, "the agent of %s refuses p%u: its mount %s the key", node->name,
                      pod->name, key->from_ms > shown_ms ? "does not show" : "shows no more");
    sim_met("stay/key_found");
    return true;
}

/* --- what must hold --- */

void oracle_key(struct sim *sim, struct model_pod *pod, const char *signature,
                const char *allocation)
{
    const struct signed_facts what = {
        .uid = text_of(pod->uid), .node = text_of(pod->node), .bytes = text_of(allocation)};

    if (signature[0] == '\0' && sim->keys.lost) {
        sim_met("signed/by_nobody");
        return;
    }
    if (!signature_key_id(text_of(signature), pod->signed_by))
        sim_violation(sim, "p%u: nobody signed its allocation: \"%s\"", pod->name, signature);
    const struct sim_key *key = key_of(&sim->keys, pod->signed_by);
    if (key == NULL || key->until_ms != INT64_MAX || key->back)
        sim_violation(sim, "p%u: the key that signed its allocation is %s", pod->name,
                      key == NULL ? "not published" : "taken away");
    if (!signature_is_good(text_of(key->text), text_of(signature), &what))
        sim_violation(sim, "p%u: its allocation is not what was signed", pod->name);
    if (!key->alone && sim->now_ms - key->from_ms < sim->keys.wait_ms)
        sim_violation(sim, "p%u: its key signs %lld ms after it was published", pod->name,
                      (long long)(sim->now_ms - key->from_ms));
    sim_met(key == &sim->keys.key[0] ? "signed/by_first" : "signed/by_later");
}

bool keys_vouch(const struct sim *sim, const struct model_pod *pod)
{
    const struct sim_key *key = key_of((struct sim_keys *)(uintptr_t)&sim->keys, pod->signed_by);

    return key != NULL && !key->revoked;
}

static void oracle_proof(struct sim *sim, const struct model_pod *pod)
{
    char path[96];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u", pod->name);
    json_t *object = model_fetch(sim, path);
    const json_t *notes = json_object_get(json_object_get(object, "metadata"), "annotations");
    const char *signature = json_string_value(json_object_get(notes, ANNOTATION_SIGNATURE));
    const char *allocation = json_string_value(json_object_get(notes, ANNOTATION_ALLOCATION));
    if (signature == NULL || allocation == NULL)
        sim_violation(sim, "p%u has lost its signature", pod->name);
    const struct signed_facts what = {
        .uid = text_of(pod->uid), .node = text_of(pod->node), .bytes = text_of(allocation)};
    const bool proven = keyring_has_signed(sim->keys.keyring, text_of(signature), &what);
    if (proven != keys_vouch(sim, pod))
        sim_violation(sim, "p%u: a key that is %s %s its allocation", pod->name,
                      proven ? "revoked" : "published", proven ? "proves" : "does not prove");
    sim_met(proven ? "key/proves" : "key/revoked_proves_nothing");
    json_decref(object);
}

void oracle_proofs(struct sim *sim)
{
    struct sim_keys *keys = &sim->keys;

    if (keys->api == NULL)
        return;
    for (uint32_t i = 0; i < keys->n_keys; i++) {
        if (keys->key[i].revoked && keys->key[i].until_ms == INT64_MAX)
            sim_violation(sim, "key %u is revoked, and published when all is quiet%s", i + 1,
                          keys->key[i].back ? ": a late request brought it back" : "");
    }
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && pod->ours && !pod->strange && pod->signed_by[0] != '\0')
            oracle_proof(sim, pod);
    }
}

void oracle_keys_gone(struct sim *sim)
{
    struct sim_keys *keys = &sim->keys;
    struct key_entry key[KEYRING_MAX];

    if (keys->api == NULL || keys->n_keys == 1)
        return;
    const int64_t needs_ms = TAKEN_WAITS * keys->wait_ms;
    if (needs_ms > SETTLED_MS)
        sim_pass(sim, needs_ms - SETTLED_MS);
    must(keys->keyring != NULL);
    const size_t count = keyring_list(keys->keyring, key);
    if (count != 1)
        sim_violation(sim, "no pod is left, and milligpud still has %zu keys", count);
    for (uint32_t i = 0; i < keys->n_keys; i++)
        if (keys->key[i].until_ms == INT64_MAX && strcmp(keys->key[i].id, key[0].id) != 0 &&
            !keys->lost && !keys->key[i].back)
            sim_violation(sim, "no pod is left, and key %u is still published", i + 1);
    sim_met("key/all_gone");
}
