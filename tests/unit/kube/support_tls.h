/*
 * support_tls - certificates for tests, made by openssl's own program in a folder of the test's.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_TLS_H
#define MILLIGPU_TESTS_SUPPORT_TLS_H

/* FOLDER/NAME.crt and .key, signed by the CA called issuer; NULL: a CA of its own.  The others are
   for 127.0.0.1 and kube.test, at both ends. */
void tls_certificate(const char *folder, const char *name, const char *issuer);
/* Removes what was needed for that; the certificates stay. */
void tls_tidy(const char *folder);

#endif
