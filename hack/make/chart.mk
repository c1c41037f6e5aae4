# The Helm chart, and what it shares with other parts of the repository.

CHART := charts/tutti

# The helm to use; empty means the one that the lab builds into build/bin.
HELM ?=

# What the chart holds copies of, because a chart cannot reach outside its folder: copy=original.
CHART_COPIES := \
	$(CHART)/files/crds/scheduling.tutti.dev_podgroups.yaml=config/crd/bases/scheduling.tutti.dev_podgroups.yaml \
	$(CHART)/files/crds/scheduling.tutti.dev_queues.yaml=config/crd/bases/scheduling.tutti.dev_queues.yaml \
	$(CHART)/files/scheduler.yaml=apis/config/v1alpha1/default.yaml

# What config/ has of the chart, for those who install without helm: folder/file=templates.
CHART_PLAIN := \
	rbac/rbac.yaml=serviceaccount.yaml,rbac.yaml,user-roles.yaml,inspect.yaml \
	admission/admission.yaml=admission/own.yaml,admission/account.yaml \
	deploy/deploy.yaml=lastgood.yaml,override.yaml,deployment.yaml,flowcontrol.yaml,poddisruptionbudget.yaml,networkpolicy.yaml

# No image is published. One of a domain that cannot exist stands in its place, for an overlay to replace.
CHART_PLACEHOLDER := --set global.imageRegistry=registry.invalid

# chart_plain prints such a file: what helm makes of the templates, without what only helm needs.
define CHART_RENDER
chart_plain() { \
	echo '# Written from the chart by "make chart-sync".'; \
	"$$helm" template tutti $(CHART) --namespace tutti-system --kube-version 1.37.0 $(CHART_PLACEHOLDER) \
		$$(printf -- '--show-only templates/%s ' $${1//,/ }) \
	| sed -E '/helm.sh\/chart:|managed-by: Helm|^# Source:/d' | cat -s; }
endef

define CHART_HELM
helm="$${HELM:-$(HELM)}"; if [ -z "$$helm" ]; then helm="$$(cd lab && go run ./cmd/lab build helm)"; fi; \
home="$$(mktemp -d)"; trap 'rm -rf "$$home"' EXIT; \
export HELM_CACHE_HOME="$$home" HELM_CONFIG_HOME="$$home" HELM_DATA_HOME="$$home"
endef

.PHONY: chart chart-sync
chart: ## Check the Helm chart: lint, render, and that its copies are fresh.
	@$(CHART_HELM); $(CHART_RENDER); \
	"$$helm" lint --strict --quiet $(CHART) $(CHART_PLACEHOLDER); \
	for values in $(CHART)/values.yaml $(CHART)/ci/*-values.yaml; do \
		echo "chart: $$values"; \
		"$$helm" lint --strict --quiet $(CHART) $(CHART_PLACEHOLDER) --values "$$values"; \
		"$$helm" template tutti $(CHART) --namespace tutti-system --kube-version 1.37.0 $(CHART_PLACEHOLDER) --values "$$values" >/dev/null; \
	done; \
	stale=0; \
	for pair in $(CHART_COPIES); do diff -u "$${pair%%=*}" "$${pair#*=}" || stale=1; done; \
	for pair in $(CHART_PLAIN); do chart_plain "$${pair#*=}" | diff -u "config/$${pair%%=*}" - || stale=1; done; \
	if [ $$stale = 1 ]; then echo 'chart: stale copies; run "make chart-sync"' >&2; exit 1; fi; \
	echo "chart: fine"

chart-sync: ## Copy the CRD and the built-in configuration into the chart, and what it renders into config/.
	@$(CHART_HELM); $(CHART_RENDER); \
	for pair in $(CHART_COPIES); do cp "$${pair#*=}" "$${pair%%=*}"; done; \
	for pair in $(CHART_PLAIN); do mkdir -p "config/$$(dirname "$${pair%%=*}")"; chart_plain "$${pair#*=}" >"config/$${pair%%=*}"; done
