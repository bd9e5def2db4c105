/*
 * api - everything for operators: probes, metrics, REST.
 *
 * The routes are one table (routes.def) from which the router, /openapi.json and docs/REST.md
 * follow.
 */
#ifndef MILLIGPU_API_H
#define MILLIGPU_API_H

#include "milligpu/app.h"

struct http_call;

/* A call on the admin listener. */
void api_handle(struct app *app, struct http_call *call);

/* Does a route of the admin listener take a body there?  Those of the probe listener do not. */
bool api_takes_body(const char *method, const char *path);

/* A call on the probe listener: /livez, /readyz, /metrics, nothing else. */
void api_handle_probe(struct app *app, struct http_call *call);

#endif
