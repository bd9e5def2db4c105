/*
 * annotations - the keys that milligpud and milligpu-node exchange through the API server.
 *
 * Our Binding annotates a pod in its one write; the agent annotates its Node. The ConfigMap is in
 * milligpud's namespace and maps the id of each public key to the key in base64.
 */
#ifndef MILLIGPU_ANNOTATIONS_H
#define MILLIGPU_ANNOTATIONS_H

/* On pods. */
#define ANNOTATION_ALLOCATION "milligpu.io/allocation"
#define ANNOTATION_SIGNATURE  "milligpu.io/signature" /* signing.h */
/*
 * A YAML list of the plugins without which the runtime creates no container. The runtime looks
 * for KEY/container.NAME first, then KEY/pod, then KEY.
 */
#define ANNOTATION_REQUIRED           "required-plugins.noderesource.dev"
#define ANNOTATION_REQUIRED_POD       ANNOTATION_REQUIRED "/pod"
#define ANNOTATION_REQUIRED_CONTAINER ANNOTATION_REQUIRED "/container."
#define REQUIRED_PLUGINS              "[\"milligpu\"]"

/* On Nodes, written at the agent's start and when it is uninstalled (AGENT_UNINSTALLED). */
#define ANNOTATION_AGENT "milligpu.io/agent"

#define KEYS_CONFIGMAP "milligpu-keys"
/* On the ConfigMap, set by an operator: the id of a key that must stop signing (keyring.h). */
#define ANNOTATION_REPLACE_KEY "milligpu.io/replace-key"
/* On the ConfigMap, prefix of the id of a key that is no longer trusted; any value. */
#define ANNOTATION_REVOKED_KEY "revoked-key.milligpu.io/"

#endif
