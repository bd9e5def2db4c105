{{- /* Labels that Helm's objects carry besides those of manifests/. Selectors have none of them. */}}
{{- define "milligpu.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* REPOSITORY[:TAG][@DIGEST] */}}
{{- define "milligpu.image" -}}
{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* config.yaml: the settings of the wiring, and those of the values, which win. */}}
{{- define "milligpu.config" -}}
# Settings of milligpud. `milligpud --print-config` shows all of them with their defaults.
{{- $settings := include "milligpu.settings" . | fromYaml }}
{{- range $name, $value := .Values.config }}
{{- $_ := set $settings $name $value }}
{{- end }}
{{- range $name, $value := $settings }}
{{ $name }}: {{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- end }}

{{- define "milligpu.scheduler" -}}
{{ .Files.Get (print "files/" .Values.scheduler.config) | trimSuffix "\n" }}
{{- end }}

{{- define "milligpu.policy" -}}
{{ .Values.policy.document | default (.Files.Get "files/policy.yaml") | trimSuffix "\n" }}
{{- end }}

{{- define "milligpu.dashboard-cluster" -}}
{{ .Files.Get "files/dashboards/cluster.json" | trimSuffix "\n" }}
{{- end }}

{{- define "milligpu.dashboard-tenant" -}}
{{ .Files.Get "files/dashboards/tenant.json" | trimSuffix "\n" }}
{{- end }}

{{- define "milligpu.dashboard-service" -}}
{{ .Files.Get "files/dashboards/service.json" | trimSuffix "\n" }}
{{- end }}

{{- /* Changes with what milligpud and its scheduler read only at their start. A policy document is read again. */}}
{{- define "milligpu.checksum" -}}
{{ print (include "milligpu.config" .) (include "milligpu.scheduler" .) | sha256sum }}
{{- end }}
