/*
 * The handler for signing keys. Called by the router in an admin thread. Read-only: operators
 * replace a key by an annotation of the ConfigMap, where RBAC applies.
 */
#include "milligpu/sync/key_publisher.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "admin/api_internal.h"

static void write_key(struct json_writer *json, const struct key_entry *key, size_t pods)
{
    char since[TIME_TEXT_BYTES];

    must(key->id[0] != '\0');
    time_format(key->since_ms, since);
    json_write_object(json);
    json_write_key(json, "id");
    json_write_str(json, key->id);
    json_write_key(json, "state");
    json_write_str(json, key_state_name(key->state));
    json_write_key(json, "published");
    json_write_bool(json, key->published);
    json_write_key(json, "since");
    json_write_str(json, since);
    json_write_key(json, "pods");
    json_write_u64(json, pods);
    json_write_object_end(json);
}

/* For a key that is not in the keyring, the ConfigMap has only the id. */
static void write_other_key(struct json_writer *json, const char *id, size_t pods)
{
    must(id[0] != '\0');
    json_write_object(json);
    json_write_key(json, "id");
    json_write_str(json, id);
    json_write_key(json, "state");
    json_write_str(json, "other");
    json_write_key(json, "published");
    json_write_bool(json, true);
    json_write_key(json, "pods");
    json_write_u64(json, pods);
    json_write_object_end(json);
}

static void write_all_keys(struct json_writer *json, const struct all_keys *all)
{
    must(all->facts.n_others <= OTHER_KEYS_MAX);
    for (size_t i = 0; i < all->count; i++)
        write_key(json, &all->key[i], all->pods[i].needing);
    for (size_t i = 0; i < all->facts.n_others; i++)
        write_other_key(json, all->facts.other[i], all->pods[all->count + i].naming);
}

static void write_place(struct json_writer *json, const struct app *app,
                        const struct key_facts *facts)
{
    json_write_key(json, "namespace");
    json_write_str(json, keys_namespace(app));
    const char *trouble = facts->error[0] != '\0' ? facts->error : facts->trouble;
    if (trouble[0] == '\0')
        return;
    json_write_key(json, "trouble");
    json_write_str(json, trouble);
}

void api_keys(struct api_call *call)
{
    const struct app *app = call->app;
    struct all_keys all;
    struct json_writer json;

    must((app->keyring != NULL) == (app->key_publisher != NULL));
    if (app->keyring != NULL)
        all_keys_read(app, &all);
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_key(&json, "items");
    json_write_array(&json);
    if (app->keyring != NULL)
        write_all_keys(&json, &all);
    json_write_array_end(&json);
    if (app->keyring != NULL)
        write_place(&json, app, &all.facts);
    json_write_object_end(&json);
}
