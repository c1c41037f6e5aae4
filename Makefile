# Tutti: every task a developer or an evaluator runs. `make` prints this list.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := bin

# One kind of build for all targets but tests with the race detector and images: what one has compiled, the others find in Go's
# cache.
export CGO_ENABLED ?= 0
export GOFLAGS += -trimpath

# Each part of the house keeps its own targets; this file only collects them.
include hack/make/*.mk

.PHONY: help
help: ## Print this list.
	@printf 'Usage: make <target>\n\n'
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'
