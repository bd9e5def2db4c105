/*
 * public_keys - the keys by which allocations may be signed: a mounted ConfigMap, a file per key.
 *
 *     DIR/KEYID      the public key in base64, as milligpud publishes it
 *
 * The folder is asked each time: mounts lag, and a key that was taken away proves nothing any more
 * (a pod whose allocation was recorded needs no key). A file whose content is no key of that id is
 * no key.
 *
 * One thread.
 */
#ifndef MILLIGPU_PUBLIC_KEYS_H
#define MILLIGPU_PUBLIC_KEYS_H

#include "milligpu/base/base.h"

struct public_keys;

struct public_keys *public_keys_new(const char *dir) MUST_USE;
void public_keys_free(struct public_keys *keys);

/* In base64; NULL: there is no such key. Valid until the next call. */
const char *public_keys_find(struct public_keys *keys, const char *id);

/* How many keys the folder has now. */
size_t public_keys_count(const struct public_keys *keys);

#endif
