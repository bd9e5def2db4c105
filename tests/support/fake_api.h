/*
 * fake_api - a fake API server served over HTTP, with scripted faults.
 *
 * Semantics come from fake_apiserver.h; this adds the wire and what can go wrong on it. A fault
 * applies to the next `times` requests whose "METHOD path" contains `match`, or ends with it if its
 * last letter is '$'; a watch appears as "?watch", any other query not at all. Faults are tried in
 * the order they were added.
 *
 * A thread per connection; every function may be called at any time.
 */
#ifndef MILLIGPU_TESTS_FAKE_API_H
#define MILLIGPU_TESTS_FAKE_API_H

#include "milligpu/fake_apiserver/fake_apiserver.h"

enum fault_kind {
    FAULT_STATUS,    /* answers number, with text as body; executes nothing */
    FAULT_LOSE,      /* executes the request, then resets the connection without an answer */
    FAULT_REFUSE,    /* resets the connection before anything is done */
    FAULT_TRUNCATE,  /* ends the connection after number bytes of the body */
    FAULT_DRIP,      /* one byte of the body every number ms */
    FAULT_HALF_OPEN, /* head, number bytes of the body, then silence */
    FAULT_SILENT,    /* executes the request and never answers */
    FAULT_SLOW,      /* answers after number ms */
    FAULT_STREAM,    /* 200 and text as a chunked body, whatever was requested */
    FAULT_LIE,       /* executes the request, then answers number, with text as body */
};

struct fault {
    const char *match; /* this and text are borrowed */
    enum fault_kind kind;
    unsigned times;
    unsigned number;
    const char *text;
    int retry_after_s; /* with FAULT_STATUS; 0: no header */
};

struct fake_tls {
    const char *cert; /* PEM texts */
    const char *key;
    const char *client_ca; /* NULL: clients need no certificate */
};

struct fake_api;

/* fake API server must outlive it. tls NULL: plain HTTP. Listens on 127.0.0.1, on a free port. */
struct fake_api *fake_api_new(struct fake_apiserver *fake, const struct fake_tls *tls) MUST_USE;
/* The same on a given port, like a server that comes back: NULL if the port is taken. */
struct fake_api *fake_api_new_at(struct fake_apiserver *fake, const struct fake_tls *tls,
                                 unsigned port) MUST_USE;
void fake_api_free(struct fake_api *api);
const char *fake_api_url(const struct fake_api *api);
unsigned fake_api_port(const struct fake_api *api);

void fake_api_fault(struct fake_api *api, const struct fault *fault);
/* Ends every stream and every silence in progress. */
void fake_api_release(struct fake_api *api);
/* Other tokens get 401; NULL: any token is accepted. */
void fake_api_token(struct fake_api *api, const char *token);

/*
 * How many of these lines contained this: for each request "METHOD path", and "Authorization: ..."
 * and "Accept: ..." where it has them.
 */
unsigned fake_api_seen(struct fake_api *api, const char *part);
unsigned fake_api_connections(struct fake_api *api);

#endif
