# The scheduler and the node agent as images: one static program each on an empty base. The scheduler runs as a user without a
# name, the agent as root, since the socket of the container runtime is root's alone.
#
# GO_IMAGE is what compiles it, for those who keep their base images elsewhere, or want one by what is in it: a tag can move, and
# golang@sha256:... cannot. `make image-docker` builds both.
# `make image` makes images of the same programs without it, as files; they also hold the licences of what is linked in.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
# The modules first, so that a change in the source does not fetch them again.
COPY go.mod go.sum ./
COPY apis/go.mod apis/go.sum apis/
RUN go mod download
COPY apis apis
COPY cmd cmd
COPY internal internal
COPY pkg pkg
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/ ./cmd/tutti-scheduler ./cmd/tutti-agent

FROM scratch AS tutti-agent
COPY --from=build /out/tutti-agent /tutti-agent
USER 0:0
ENTRYPOINT ["/tutti-agent"]

# The last one is what a build without a target makes.
FROM scratch AS tutti-scheduler
COPY --from=build /out/tutti-scheduler /tutti-scheduler
USER 65532:65532
ENTRYPOINT ["/tutti-scheduler"]
