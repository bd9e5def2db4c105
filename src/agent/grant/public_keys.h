/*
 * public_keys - public keys that verify allocations: a mounted ConfigMap with a file per key.
 *
 *     DIR/KEYID      the public key in base64, as milligpud publishes it
 *
 * The folder is read each time, since mounts lag and a removed key verifies nothing any more (a pod
 * with a recorded allocation needs no key). A file with other content than the key of its id is
 * ignored.
 *
 * One thread.
 */
#ifndef MILLIGPU_PUBLIC_KEYS_H
#define MILLIGPU_PUBLIC_KEYS_H

#include "milligpu/base/base.h"

struct public_keys;

struct public_keys *public_keys_new(const char *dir) MUST_USE;
void public_keys_free(struct public_keys *keys);

/* The key in base64, valid until the next call; NULL if there is none. */
const char *public_keys_find(struct public_keys *keys, const char *id);

/* Number of keys in the folder now. */
size_t public_keys_count(const struct public_keys *keys);

#endif
