{{/* A policy as far as its conditions: its name, and the requests that it is about. root is the chart's context; without a group they
are of the core API; several operations or resources have commas between them. */}}
{{- define "tutti.policy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "tutti.clusterName" .root }}-{{ .name }}
  {{- include "tutti.meta" (dict "root" .root) | nindent 2 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [{{ .group | default "\"\"" }}]
      apiVersions: [{{ if .group }}"*"{{ else }}v1{{ end }}]
      operations: [{{ .operations }}]
      resources: [{{ .resources }}]
{{- end }}
