/*
 * agent_probe - the agent's listener: /livez, /readyz and /metrics, for kubelet and Prometheus.
 *
 * /readyz is 200 while the GPUs of this node can be given to containers (readiness.h). /livez is
 * 200 as long as this process serves requests: an agent that is not ready need not be restarted.
 * /metrics names pods only with agent_metrics.has_containers.
 */
#ifndef MILLIGPU_AGENT_AGENT_PROBE_H
#define MILLIGPU_AGENT_AGENT_PROBE_H

#include "milligpu/base/err.h"

#include "agent_metrics.h"
#include "readiness.h"

struct agent_probe;

/*
 * With an empty listen, *out is NULL. Unless port_file is empty, it gets "probe ADDRESS\n"
 * (write-and-rename). Copies *metrics; its pointers and readiness are borrowed until
 * agent_probe_stop().
 */
int agent_probe_start(const char *listen, const char *port_file,
                      const struct agent_metrics *metrics, struct readiness *readiness,
                      struct agent_probe **out, struct err *err) MUST_USE;
void agent_probe_stop(struct agent_probe *probe); /* NULL is fine */

#endif
