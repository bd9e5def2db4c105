/*
 * certificate - certificates for tests and benchmarks, made by the openssl program in their folder.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_CERTIFICATE_H
#define MILLIGPU_TESTS_SUPPORT_CERTIFICATE_H

#include "milligpu/base/base.h"

/*
 * FOLDER/NAME.crt and .key, signed by the CA called issuer; NULL: NAME is a CA of its own. The
 * others are valid for 127.0.0.1 and kube.test, for servers and clients. False: openssl is not
 * there, or has failed.
 */
bool certificate_make(const char *folder, const char *name, const char *issuer) MUST_USE;
/* Removes the helper files; the certificates stay. */
void certificate_tidy(const char *folder);

#endif
