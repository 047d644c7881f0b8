{{/* The name of all objects: the release's, with the chart's in it. Pods add -0 to it, and have 63 characters. */}}
{{- define "streamwright.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "streamwright.selector" -}}
app.kubernetes.io/name: streamwright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: engine
{{- end }}

{{- define "streamwright.labels" -}}
{{ include "streamwright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* engine.toml */}}
{{- define "streamwright.config" -}}
[server]
dir = "/data"
nats_listen = "0.0.0.0:4222"
http = "0.0.0.0:8484"
{{ .Values.server | trim }}
{{- if gt (int .Values.nodes) 1 }}
{{- $peers := list }}
{{- range $i := until (int .Values.nodes) }}
{{- $peers = append $peers (printf "%s-%d.%s-nodes:6222" (include "streamwright.name" $) $i (include "streamwright.name" $)) }}
{{- end }}

[cluster]
name = {{ .Values.cluster.name | quote }}
listen = "0.0.0.0:6222"
peers = {{ $peers | toJson }}
tls_cert = "/cluster/node.pem"
tls_key = "/cluster/node.key"
tls_ca = "/cluster/cluster-ca.pem"
secret_file = "/cluster/cluster.secret"
{{- with .Values.cluster.settings }}
{{ . | trim }}
{{- end }}
{{- end }}

{{ .Values.config | trim }}
{{- end }}
