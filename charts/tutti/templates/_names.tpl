{{/* Objects have fixed names, so that what users read in the docs is what they find, unless fullnameOverride says otherwise.
Objects without a namespace carry the namespace too, unless it is the usual one. */}}
{{- define "tutti.name" -}}
{{- .Values.fullnameOverride | default "tutti-scheduler" -}}
{{- end }}

{{- define "tutti.clusterName" -}}
{{- include "tutti.inCluster" (list . (include "tutti.name" .)) -}}
{{- end }}

{{- define "tutti.agentName" -}}
{{- if .Values.fullnameOverride -}}{{ .Values.fullnameOverride }}-agent{{- else -}}tutti-agent{{- end -}}
{{- end }}

{{- define "tutti.agentClusterName" -}}
{{- include "tutti.inCluster" (list . (include "tutti.agentName" .)) -}}
{{- end }}

{{- define "tutti.inCluster" -}}
{{- $namespace := (index . 0).Release.Namespace -}}
{{- index . 1 }}{{- if ne $namespace "tutti-system" }}-{{ $namespace }}{{- end -}}
{{- end }}

{{/* Where the agents are. */}}
{{- define "tutti.agentNamespace" -}}
{{- .Values.isolcpu.agent.namespace | default .Release.Namespace -}}
{{- end }}

{{- define "tutti.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tutti.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end }}
{{- end }}

{{/* The accounts, as the API server names their users. */}}
{{- define "tutti.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "tutti.serviceAccount" . }}
{{- end }}

{{- define "tutti.agentUser" -}}
system:serviceaccount:{{ include "tutti.agentNamespace" . }}:{{ include "tutti.agentName" . }}
{{- end }}

{{- define "tutti.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "tutti-scheduler" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The agent is another program: what selects the scheduler's pods must not select its. */}}
{{- define "tutti.agentSelectorLabels" -}}
app.kubernetes.io/name: {{ if .Values.nameOverride }}{{ .Values.nameOverride }}-agent{{ else }}tutti-agent{{ end }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The Job that checks the configuration is none of the scheduler's pods. */}}
{{- define "tutti.checkLabels" -}}
app.kubernetes.io/name: tutti-check-config
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What helm test makes: no service and no budget of the scheduler's may select it. */}}
{{- define "tutti.testLabels" -}}
app.kubernetes.io/name: tutti-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: tutti
{{- end }}

{{/* Labels and annotations of an object: root is the chart's context; agent is true for the agent's objects; more labels and
annotations may come with it. */}}
{{- define "tutti.meta" -}}
{{- $root := .root -}}
{{- $own := include (ternary "tutti.agentSelectorLabels" "tutti.selectorLabels" (default false .agent)) $root | fromYaml -}}
{{- $chart := dict
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_")
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
  "app.kubernetes.io/part-of" "tutti" -}}
labels:
  {{- merge (dict) $own $chart (default dict .labels) $root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge (dict) (default dict .annotations) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels and annotations of pods: a list of the chart's context, what selects them, more labels, more annotations. They have not
all labels of the chart: a new version of it alone restarts nothing. */}}
{{- define "tutti.podMeta" -}}
{{- $values := (index . 0).Values -}}
{{- $own := merge (dict "app.kubernetes.io/part-of" "tutti") (index . 1 | fromYaml) -}}
labels:
  {{- merge $own (index . 2) $values.commonLabels | toYaml | nindent 2 }}
{{- with merge (dict) (index . 3) $values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The name of an image without its tag: a list of the chart's context and the image. */}}
{{- define "tutti.repository" -}}
{{- $image := index . 1 -}}
{{- with (index . 0).Values.global.imageRegistry | default $image.registry }}{{ . }}/{{ end }}{{ $image.repository -}}
{{- end }}

{{- define "tutti.image" -}}
{{- $image := index . 1 -}}
{{- include "tutti.repository" . -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* The Secret with the certificate of the metrics; empty without one. */}}
{{- define "tutti.certificate" -}}
{{- if .Values.metrics.certManager.enabled -}}
{{- .Values.metrics.certificate | default (printf "%s-metrics" (include "tutti.name" .)) -}}
{{- else -}}
{{- .Values.metrics.certificate -}}
{{- end -}}
{{- end }}

{{/* The text of the configuration. */}}
{{- define "tutti.config" -}}
{{- .Values.config | default (.Files.Get "files/scheduler.yaml") | trim -}}
{{- $other := list -}}
{{- range $name, $on := .Values.sources }}{{ if and (not (kindIs "map" $on)) (eq (eq $name "job") $on) }}{{ $other = append $other (printf "%s: %t" $name $on) }}{{ end }}{{ end -}}
{{- if and $other (not .Values.config) }}
sources: {{ printf "{%s}" (join ", " $other) }}
{{- end -}}
{{- end }}
