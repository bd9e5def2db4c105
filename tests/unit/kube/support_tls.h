/*
 * support_tls - certificates for tests, made by the openssl program in a folder of the test.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_TLS_H
#define MILLIGPU_TESTS_SUPPORT_TLS_H

/*
 * FOLDER/NAME.crt and .key, signed by the CA called issuer; NULL: NAME is a CA of its own. The
 * others are valid for 127.0.0.1 and kube.test, for servers and clients.
 */
void tls_certificate(const char *folder, const char *name, const char *issuer);
/* Removes the helper files; the certificates stay. */
void tls_tidy(const char *folder);

#endif
