{{/* What a schema can refuse, but not explain: each of these says what to write instead. */}}
{{- define "tutti.checks" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) }}
{{- fail "replicas: two schedulers would place the same pods twice; set leaderElection.enabled to true or replicas to 1" }}
{{- end }}
{{- if eq (int .Values.metrics.port) (int .Values.health.port) }}
{{- fail (printf "metrics.port and health.port are both %d; a container can listen there once" (int .Values.health.port)) }}
{{- end }}
{{- with .Values.config }}
{{- $read := fromYaml . }}
{{- if or (hasKey $read "Error") (not (kindIs "slice" $read.tiers)) }}
{{- fail "config: that is no configuration: it has no list of tiers; give the text of one with --set-file config=FILE, which `kubectl tutti config lint FILE` checks" }}
{{- end }}
{{- end }}
{{- range .Values.scheduler.names }}
{{- if eq . "default-scheduler" }}
{{- fail "scheduler.names: default-scheduler is kube-scheduler's; two schedulers for one name place pods twice" }}
{{- end }}
{{- end }}
{{- range $name := list "schedulePeriod" "bindDeadline" }}
{{- $value := index $.Values.scheduler $name }}
{{- if not (regexMatch "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$" (toString $value)) }}
{{- fail (printf "scheduler.%s: %v is no duration; write a number with its unit, such as 30s or 1m30s" $name $value) }}
{{- end }}
{{- end }}
{{- range $name, $image := dict "image" .Values.image "isolcpu.agent.image" .Values.isolcpu.agent.image }}
{{- if not (regexMatch "^(sha256:[0-9a-f]{64})?$" $image.digest) }}
{{- fail (printf "%s.digest: %s is no digest; write sha256: and 64 hexadecimal digits, or leave it empty and set %s.tag" $name $image.digest $name) }}
{{- end }}
{{- end }}
{{- range $name, $args := dict "scheduler" .Values.scheduler.extraArgs "isolcpu.agent" .Values.isolcpu.agent.extraArgs }}
{{- range $args }}
{{- if not (hasPrefix "--" .) }}
{{- fail (printf "%s.extraArgs: %s is no flag; write --flag=value, one for each item" $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
