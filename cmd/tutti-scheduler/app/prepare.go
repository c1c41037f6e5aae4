package app

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lease"
)

// preparers is how many requests about volumes and claims are under way at most, however many pods are being prepared: those
// mostly wait for others.
const preparers = 32

// prepareTimeout bounds one of them, from the moment it has its place, so that one without an answer does not keep it. What it
// waited for the place is no fault of the API server, and must not fail a gang with many volumes.
const prepareTimeout = lease.RequestTimeout

// prepareConfig returns the configuration of the client that writes about volumes and claims: no throttle, but few at the same
// time, and none while mayWrite, asked right before each and again where it goes to the network, says no.
func prepareConfig(config *rest.Config, mayWrite func() bool) *rest.Config {
	config = commit.Fenced(config, mayWrite)
	config.QPS = -1
	config.UserAgent = rest.DefaultKubernetesUserAgent() + "/prepare"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &concurrencyLimiter{next: next, slots: make(chan struct{}, preparers), mayWrite: mayWrite}
	})
	return config
}

// concurrencyLimiter lets requests wait until there is a slot.
type concurrencyLimiter struct {
	next     http.RoundTripper
	slots    chan struct{}
	mayWrite func() bool
}

// RoundTrip carries out a request.
func (f *concurrencyLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case f.slots <- struct{}{}:
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	defer func() { <-f.slots }()
	if request.Method != http.MethodGet && !f.mayWrite() {
		return nil, commit.ErrNotLeading
	}
	ctx, cancel := context.WithTimeout(request.Context(), prepareTimeout)
	response, err := f.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &cancelOnClose{ReadCloser: response.Body, end: cancel}
	return response, nil
}

// cancelOnClose is an answer that is read under a context of its own, which ends with it.
type cancelOnClose struct {
	io.ReadCloser
	end context.CancelFunc
}

// Close ends the reading.
func (b *cancelOnClose) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
