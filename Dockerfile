# The scheduler as an image: one static program on an empty base, as a user without a name.
#
# GO_IMAGE is what compiles it, for those who keep their base images elsewhere. `make image` builds it.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
# The modules first, so that a change in the source does not fetch them anew.
COPY go.mod go.sum ./
RUN go mod download
COPY apis apis
COPY cmd cmd
COPY pkg pkg
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/tutti-scheduler ./cmd/tutti-scheduler

FROM scratch
COPY --from=build /out/tutti-scheduler /tutti-scheduler
USER 65532:65532
ENTRYPOINT ["/tutti-scheduler"]
