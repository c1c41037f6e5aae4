# The container image.

# Its name; the tag is the one that the chart asks for.
IMAGE ?= tutti-scheduler:$(shell sed -n 's/^appVersion: *//p' charts/tutti/Chart.yaml)

# docker, podman or buildah; empty means the first of them that works.
IMAGE_BUILDER ?=

# The image that compiles; empty means the one the Dockerfile names.
GO_IMAGE ?=

.PHONY: image
image: ## Build the container image (IMAGE=name:tag) with docker, podman or buildah.
	@builder='$(IMAGE_BUILDER)'; \
	for candidate in docker podman buildah; do \
		if [ -z "$$builder" ] && command -v "$$candidate" >/dev/null && "$$candidate" info >/dev/null 2>&1; then \
			builder="$$candidate"; \
		fi; \
	done; \
	if [ -z "$$builder" ]; then \
		echo 'image: none of docker, podman and buildah works here (docker needs its service to run);' >&2; \
		echo 'image: name a builder with IMAGE_BUILDER=..., or build the program alone with "make build"' >&2; \
		exit 1; \
	fi; \
	echo "image: $(IMAGE) with $$builder"; \
	context="$$(mktemp -d)"; trap 'rm -rf "$$context"' EXIT; \
	cp -R Dockerfile go.mod go.sum apis cmd pkg "$$context/"; \
	"$$builder" build --tag '$(IMAGE)' $(if $(GO_IMAGE),--build-arg 'GO_IMAGE=$(GO_IMAGE)') "$$context"
