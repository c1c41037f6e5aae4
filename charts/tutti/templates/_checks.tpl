{{/* What a schema can refuse, but not explain: each of these says what to write instead. */}}
{{- define "tutti.checks" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) }}
{{- fail "replicas: two schedulers would place the same pods twice; set leaderElection.enabled to true or replicas to 1" }}
{{- end }}
{{- if eq (int .Values.metrics.port) (int .Values.health.port) }}
{{- fail (printf "metrics.port and health.port are both %d; a container can listen there once" (int .Values.health.port)) }}
{{- end }}
{{- $read := or .Values.metrics.serviceMonitor.enabled .Values.isolcpu.agent.podMonitor.enabled }}
{{- if and $read .Values.networkPolicy.enabled (not .Values.metrics.readers) (not .Values.networkPolicy.metricsFrom) }}
{{- fail "metrics.readers is empty, so that no pod reaches the metrics; name the account of Prometheus there, or its pods in networkPolicy.metricsFrom" }}
{{- end }}
{{- with .Values.config }}
{{- $read := fromYaml . }}
{{- if or (hasKey $read "Error") (not (kindIs "slice" $read.tiers)) }}
{{- fail "config: that is no configuration: it has no list of tiers; give the text of one with --set-file config=FILE, which `tutti-scheduler --config FILE --explain-config` checks" }}
{{- end }}
{{- end }}
{{- $known := .Files.Get "files/names.yaml" | fromYaml }}
{{- $read := include "tutti.config" . | fromYaml }}
{{- range splitList "," (toString ($read.actions | default "")) }}
{{- if and (trim .) (not (has (trim .) $known.actions)) }}
{{- fail (printf "config: unknown action %q; this version has %s; `tutti-scheduler --config FILE --explain-config` says more" (trim .) (join ", " $known.actions)) }}
{{- end }}
{{- end }}
{{- range $at, $tier := $read.tiers }}
{{- if not (and (kindIs "map" $tier) (kindIs "slice" $tier.plugins)) }}
{{- fail (printf "config: tier %d has no list of plugins" (add1 $at)) }}
{{- end }}
{{- range $tier.plugins }}
{{- $name := toString (get (ternary . dict (kindIs "map" .)) "name") }}
{{- if not (or (has $name $known.plugins) (has $name $.Values.configCheck.plugins)) }}
{{- fail (printf "config: unknown plugin %q in tier %d; this version has %s; `tutti-scheduler --config FILE --explain-config` says more" $name (add1 $at) (join ", " $known.plugins)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.sources.job (include "tutti.sourceIsOff" (list $ "job")) }}
{{- fail "sources.job: write sources: {job: true} in config, too; until then pods of Jobs start one by one, and the right to read Jobs is not used" }}
{{- end }}
{{- range $name, $on := .Values.sources }}
{{- if not (or (eq $name "crds") (has $name $known.sources)) }}
{{- fail (printf "sources.%s: there is no such source; this version has %s" $name (join ", " $known.sources)) }}
{{- end }}
{{- if not (or (kindIs "map" $on) $on (include "tutti.sourceIsOff" (list $ $name))) }}
{{- $why := ternary "" "without the right to read these groups their pods wait; " (has $name (list "kueue" "leaderworkerset")) }}
{{- fail (printf "sources.%s: %swrite sources: {%s: false} in config, too, so that their marks mean nothing" $name $why $name) }}
{{- end }}
{{- end }}
{{- range .Values.scheduler.names }}
{{- if eq . "default-scheduler" }}
{{- fail "scheduler.names: default-scheduler is kube-scheduler's; two schedulers for one name place pods twice" }}
{{- end }}
{{- end }}
{{- /* Removed values. Their last defaults are accepted, since helm upgrade --reuse-values brings them from the stored release. */}}
{{- $removed := list }}
{{- range $name, $default := dict "schedulePeriod" "5s" "bindWorkers" "64" }}
{{- $value := index $.Values.scheduler $name }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) $default)) }}
{{- $removed = append $removed (printf "scheduler.%s" $name) }}
{{- end }}
{{- end }}
{{- with $removed }}
{{- fail (printf "%s: there is no such value, its number is fixed; take it out of your values file or, where your values are those of the last release, upgrade with --reset-then-reuse-values --set %s=null" (join ", " .) (join "=null," .)) }}
{{- end }}
{{- range $name := list "bindDeadline" "stepLimit" }}
{{- $value := index $.Values.scheduler $name }}
{{- if not (regexMatch "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$" (toString $value)) }}
{{- fail (printf "scheduler.%s: %v is no duration; write a number with its unit, such as 30s or 1m30s" $name $value) }}
{{- end }}
{{- end }}
{{- $limit := include "tutti.seconds" (toString .Values.scheduler.stepLimit) | float64 }}
{{- $step := .Values.metrics.alerts.thresholds.stepSeconds | float64 }}
{{- if and .Values.metrics.alerts.enabled (not (has "TuttiLoopHangs" .Values.metrics.alerts.disabled)) (ge $step $limit) }}
{{- fail (printf "metrics.alerts.thresholds.stepSeconds: after %v s the scheduler has ended itself (scheduler.stepLimit: %s), so that TuttiLoopHangs could not fire; write less than %v, by more than Prometheus takes between two scrapes" $step .Values.scheduler.stepLimit $limit) }}
{{- end }}
{{- $images := dict "image" .Values.image }}
{{- if .Values.isolcpu.enabled }}
{{- $_ := set $images "isolcpu.agent.image" .Values.isolcpu.agent.image }}
{{- end }}
{{- range $name, $image := $images }}
{{- $repository := include "tutti.repository" (list $ $image) }}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/." $repository) }}
{{- fail (printf "%s.registry: the image %s names no registry, and each container runtime looks in other places for such an image; none is published: set %s.registry or global.imageRegistry to where you have put yours (docs/install.md)" $name $repository $name) }}
{{- end }}
{{- if not (regexMatch "^(sha256:[0-9a-f]{64})?$" $image.digest) }}
{{- fail (printf "%s.digest: %s is no digest; write sha256: and 64 hexadecimal digits, or leave it empty and set %s.tag" $name $image.digest $name) }}
{{- end }}
{{- end }}
{{- if not .Values.rbac.preemption }}
{{- $actions := toString (include "tutti.config" . | fromYaml).actions }}
{{- range list "preempt" "reclaim" }}
{{- if contains . $actions }}
{{- fail (printf "rbac.preemption: the configuration's actions name %s, which evicts pods; leave it out of them, or allow it" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.certManager.enabled (not .Values.metrics.certManager.issuerRef.name) }}
{{- fail "metrics.certManager.issuerRef: name the issuer of the certificate, such as {kind: ClusterIssuer, name: internal}" }}
{{- end }}
{{- range $name, $args := dict "scheduler" .Values.scheduler.extraArgs "isolcpu.agent" .Values.isolcpu.agent.extraArgs }}
{{- range $args }}
{{- if not (hasPrefix "--" .) }}
{{- fail (printf "%s.extraArgs: %s is no flag; write --flag=value, one for each item" $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether the configuration turns a source off, or leaves the one off that is by default: not empty if so. */}}
{{- define "tutti.sourceIsOff" -}}
{{- $name := index . 1 -}}
{{- $said := toString (get ((include "tutti.config" (index . 0) | fromYaml).sources | default dict) $name) -}}
{{- if ternary (ne $said "true") (eq $said "false") (eq $name "job") }}off{{ end -}}
{{- end }}

{{/* The seconds of a duration such as 1m30s. */}}
{{- define "tutti.seconds" -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit . | float64) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) -}}
{{- end -}}
{{- $seconds -}}
{{- end }}
