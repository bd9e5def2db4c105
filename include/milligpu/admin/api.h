/*
 * api - everything for operators: probes, metrics, REST.
 *
 * The routes are one table (routes.def); the router, /openapi.json and docs/REST.md are derived
 * from it.
 */
#ifndef MILLIGPU_API_H
#define MILLIGPU_API_H

#include "milligpu/spine/app.h"

struct http_call;

/* Answers a call on the admin listener. */
void api_handle(struct app *app, struct http_call *call);

/* True if a route of the admin listener accepts a body; no route of the probe listener does. */
bool api_takes_body(const char *method, const char *path);

/* Answers a call on the probe listener: /livez, /readyz, /metrics and /metrics/nodes. */
void api_handle_probe(struct app *app, struct http_call *call);

#endif
