{{/* Names and labels. A process is one of ingest, writer, notifier, admin. */}}
{{- define "logboom.name" -}}
{{- if contains "logboom" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-logboom" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "logboom.labels" -}}
{{ include "logboom.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "logboom.selector" -}}
app.kubernetes.io/name: logboom
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "logboom.image" -}}
{{ .root.Values.image.prefix }}{{ .component }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* True if an engine is bundled. */}}
{{- define "logboom.bundled" -}}
{{- range .Values.bundled }}{{ if .enabled }}true{{ end }}{{ end -}}
{{- end }}

{{/* The Secret that holds a key: the operator's Secret, or the chart's own for a bundled engine. */}}
{{- define "logboom.bundledKey" -}}
{{- $b := .root.Values.bundled -}}
{{- if or (and (eq .key "nats-url") $b.nats.enabled) (and (eq .key "redis-url") $b.redis.enabled) (and (eq .key "clickhouse-url") $b.clickhouse.enabled) -}}
true
{{- end -}}
{{- end }}

{{- define "logboom.existing" -}}
{{ required "secret.existing: name the Secret with the addresses of your engines (or bundle engines, to try it out)" .Values.secret.existing }}
{{- end }}

{{- define "logboom.stop" -}}
{{ add .Values.drainSeconds .Values.stopSeconds 10 }}
{{- end }}

{{/* The environment variable of an engine's address, from the Secret that holds it. */}}
{{- define "logboom.secretEnv" -}}
- name: LOGBOOM_{{ .name | upper | replace "-" "_" }}
  valueFrom:
    secretKeyRef:
      {{- if include "logboom.bundledKey" (dict "root" .root "key" .name) }}
      name: {{ include "logboom.name" .root }}-engines
      key: {{ .component }}-{{ .name }}
      {{- else if and (eq .name "secret-key") (not .root.Values.secret.existing) }}
      name: {{ include "logboom.name" .root }}-engines
      key: secret-key
      {{- else }}
      name: {{ include "logboom.existing" .root }}
      key: {{ .key }}
      {{- end }}
{{- end }}

{{/* The environment of a process. */}}
{{- define "logboom.env" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- range $name, $key := .process.secretKeys }}
{{ include "logboom.secretEnv" (dict "root" $root "component" $component "name" $name "key" $key) }}
{{- end }}
{{- range .process.bootstrapKeys }}
- name: LOGBOOM_{{ . | upper | replace "-" "_" }}
  valueFrom:
    secretKeyRef:
      name: {{ $root.Values.secret.existing | default (printf "%s-engines" (include "logboom.name" $root)) }}
      key: {{ . }}
      optional: true
{{- end }}
{{- range $name, $value := include "logboom.settings" . | fromYaml }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* Settings of a process by name: the chart's own, overridden by those of the values. */}}
{{- define "logboom.settings" -}}
{{- $values := .root.Values -}}
{{- $all := dict "LOGBOOM_SHARDS" $values.queue.shards "LOGBOOM_STREAM_BYTES" $values.queue.streamBytes "LOGBOOM_REPLICAS" $values.queue.replicas }}
{{- if and $values.clickhouseCluster (hasKey .process.secretKeys "clickhouse-url") }}
{{- $_ := set $all "LOGBOOM_CLICKHOUSE_CLUSTER" $values.clickhouseCluster }}
{{- end }}
{{- with .process.trustedProxies }}
{{- $_ := set $all "LOGBOOM_TRUSTED_PROXIES" (join "," .) }}
{{- end }}
{{- if .process.port }}
{{- $_ := set $all (printf "LOGBOOM_%s_ADDR" (upper .component)) (printf ":%v" .process.port) }}
{{- end }}
{{- if ne .component "migrate" }}
{{- $_ := set $all "LOGBOOM_STOP_TIMEOUT" (printf "%vs" $values.stopSeconds) }}
{{- end }}
{{- with include "logboom.memory" . }}
{{- $_ := set $all "GOMEMLIMIT" . }}
{{- end }}
{{- range $name, $value := mergeOverwrite $all (deepCopy $values.settings) (deepCopy (.process.settings | default dict)) }}
{{- /* Numbers in a values file are floats: 1000000 would be written as 1e+06. */}}
{{ $name }}: {{ if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ printf "%.0f" $value | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{/* The soft memory limit of the Go runtime: nine tenths of the memory limit, if
that is a whole number of Mi or Gi. */}}
{{- define "logboom.memory" -}}
{{- $limit := dig "limits" "memory" "" .process.resources | toString -}}
{{- if regexMatch "^[0-9]+[MG]i$" $limit -}}
{{ div (mul (regexFind "^[0-9]+" $limit | int64) (hasSuffix "Gi" $limit | ternary 1024 1) 9) 10 }}MiB
{{- end -}}
{{- end }}

{{/* Where pods may run. */}}
{{- define "logboom.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "logboom.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "logboom.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* True if KEDA is requested, or if it is installed and the address of Prometheus is set. */}}
{{- define "logboom.keda" -}}
{{- $k := .Values.writer.autoscaling.keda -}}
{{- if eq $k.mode "on" -}}
{{- $_ := required "writer.autoscaling.keda.prometheusAddress: KEDA reads the writers' lag from Prometheus: give its address" $k.prometheusAddress -}}
true
{{- else if and (eq $k.mode "auto") $k.prometheusAddress (.Capabilities.APIVersions.Has "keda.sh/v1alpha1") -}}
true
{{- end -}}
{{- end }}
