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

{{- define "tutti.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The text of the configuration. */}}
{{- define "tutti.config" -}}
{{- .Values.config | default (.Files.Get "files/scheduler.yaml") | trim -}}
{{- end }}
