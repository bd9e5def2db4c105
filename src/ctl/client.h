/*
 * client - requests to milligpud, with answers as documents.
 *
 * One persistent connection. Calls are limited in time and size. A refusal of the server
 * (problem+json) becomes an err with its sentence.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_CLIENT_H
#define MILLIGPU_CTL_CLIENT_H

#include <stdio.h>

#include "milligpu/document/document.h"

struct client;

struct client *client_new(void) MUST_USE;
void client_free(struct client *client);

/* base: "127.0.0.1:8911", "http://127.0.0.1:8911" or "unix:/PATH"; path begins with '/'. */
struct client_request {
    const char *base;
    const char *method; /* "GET", "POST" */
    const char *path;
    struct text body; /* JSON; at is NULL without a body */
};

/* *out: the answer, parsed as JSON, in arena. */
int client_call(struct client *client, const struct client_request *call, struct arena *arena,
                struct document **out, struct err *err) MUST_USE;
/* Joins all pages of a list: {"items":[...]}. path can have a query. */
int client_list(struct client *client, const char *base, const char *path, struct arena *arena,
                struct document **out, struct err *err) MUST_USE;
/*
 * Calls each() for every item of a list. Pages are read one by one, and an item is valid only
 * during its call. The first failure of each() ends the list.
 */
struct client_each {
    const char *path;
    void *user;
    int (*each)(void *user, const struct document *item, struct err *err);
};
int client_each(struct client *client, const char *base, const struct client_each *list,
                struct err *err) MUST_USE;
/* Writes the body of the answer to file. */
int client_download(struct client *client, const char *base, const char *path, FILE *file,
                    struct err *err) MUST_USE;

/*
 * A stream of events on a connection of its own; only their arrival is reported, not their content.
 * Nothing is read until client_stream_wait().
 */
struct client_stream;
enum client_news {
    CLIENT_QUIET, /* no events within the timeout */
    CLIENT_NEWS,  /* events arrived since the last call */
    CLIENT_OVER,  /* the stream ended or failed; *out_status: its HTTP status, 0 for no answer */
};
struct client_stream *client_stream_new(const struct client_request *call) MUST_USE;
void client_stream_free(struct client_stream *stream); /* NULL is fine */
enum client_news client_stream_wait(struct client_stream *stream, int wait_ms, long *out_status);

/* Escapes text as one segment of a path, or one value of a query. */
void url_escape(struct strbuf *out, const char *text);
/* Appends "?key=value" or "&key=value"; nothing for value NULL. */
void url_query(struct strbuf *path, const char *key, const char *value);

/* Converts the HTTP status and body of a failed call to an err. */
int client_problem(long status, struct text body, struct err *err);

#endif
