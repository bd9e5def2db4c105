/*
 * agent_probe - the agent's listener: /livez, /readyz and /metrics, for kubelet and Prometheus.
 *
 * /readyz is 200 while the GPUs of this node may be handed out (readiness.h). /livez is 200 as long
 * as this process serves at all: an agent that is not ready is not restarted for it. /metrics names
 * pods only if it is given containers.
 */
#ifndef MILLIGPU_AGENT_AGENT_PROBE_H
#define MILLIGPU_AGENT_AGENT_PROBE_H

#include "milligpu/base/err.h"

#include "agent_metrics.h"
#include "readiness.h"

struct agent_probe;

/*
 * listen "": *out is NULL. port_file "": none; else "probe ADDRESS\n", renamed into place. What
 * metrics points to, and readiness, must live until agent_probe_stop().
 */
int agent_probe_start(const char *listen, const char *port_file,
                      const struct agent_metrics *metrics, struct readiness *readiness,
                      struct agent_probe **out, struct err *err) MUST_USE;
void agent_probe_stop(struct agent_probe *probe); /* NULL is fine */

#endif
