{{/* The chart installs one scheduler per namespace, so its objects have fixed names: what users read in the docs is what
they find. Objects without a namespace carry the namespace too, unless it is the usual one. */}}
{{- define "tutti.name" -}}
tutti-scheduler
{{- end }}

{{- define "tutti.clusterName" -}}
{{- if eq .Release.Namespace "tutti-system" -}}
tutti-scheduler
{{- else -}}
{{- printf "tutti-scheduler-%s" .Release.Namespace -}}
{{- end }}
{{- end }}

{{- define "tutti.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tutti.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end }}
{{- end }}

{{- define "tutti.selectorLabels" -}}
app.kubernetes.io/name: tutti-scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tutti.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tutti.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: tutti
{{- end }}

{{/* A list: the image, the tag where it names none. */}}
{{- define "tutti.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 1) }}
{{- end }}
{{- end }}

{{/* The agent is another program: what selects the scheduler's pods must not select its. */}}
{{- define "tutti.agentSelectorLabels" -}}
app.kubernetes.io/name: tutti-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tutti.agentLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tutti.agentSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: tutti
{{- end }}

{{/* What helm test makes: no service and no budget of the scheduler's may select it. */}}
{{- define "tutti.testLabels" -}}
app.kubernetes.io/name: tutti-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: tutti
{{- end }}

{{- define "tutti.agentClusterName" -}}
{{- include "tutti.clusterName" . | replace "tutti-scheduler" "tutti-agent" -}}
{{- end }}

{{/* The text of the configuration. */}}
{{- define "tutti.config" -}}
{{- .Values.config | default (.Files.Get "files/scheduler.yaml") | trim -}}
{{- end }}
