/*
 * client - requests to milligpud, with answers as documents.
 *
 * One connection, which is kept. Every call is bounded in time and size. A refusal of the server
 * (problem+json) becomes an err with that one sentence.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_CLIENT_H
#define MILLIGPU_CTL_CLIENT_H

#include <stdio.h>

#include "milligpu/doc.h"

struct client;

struct client *client_new(void) MUST_USE;
void client_free(struct client *client);

/* base: "127.0.0.1:8911" or "http://127.0.0.1:8911"; path begins with '/'. */
struct client_request {
    const char *base;
    const char *method; /* "GET", "POST" */
    const char *path;
    struct text body; /* JSON; at NULL: none */
};

/* The answer as JSON. */
int client_call(struct client *client, const struct client_request *call, struct arena *arena,
                struct doc **out, struct err *err) MUST_USE;
/* All pages of a list in one: {"items":[...]}.  path may have a query. */
int client_list(struct client *client, const char *base, const char *path, struct arena *arena,
                struct doc **out, struct err *err) MUST_USE;
/* Writes the body of the answer into file. */
int client_download(struct client *client, const char *base, const char *path, FILE *file,
                    struct err *err) MUST_USE;

/* Escapes text as one segment of a path, or one value of a query. */
void url_escape(struct strbuf *out, const char *text);
/* Appends "?key=value" or "&key=value"; nothing for value NULL. */
void url_query(struct strbuf *path, const char *key, const char *value);

/* Converts the HTTP status and body of a failed call to an err. */
int client_problem(long status, struct text body, struct err *err);

#endif
