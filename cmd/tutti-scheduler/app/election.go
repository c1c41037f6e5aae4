package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/internal/lease"
)

// inClusterNamespace is where a pod reads which namespace it is in.
const inClusterNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace returns the scheduler's, where its Lease is and the ConfigMap with its certificate; empty for a scheduler that runs
// beside a cluster without an election.
func (o *options) namespace() (string, error) {
	switch {
	case o.leaderNamespace != "":
		return o.leaderNamespace, nil
	case o.kubeconfig != "" && o.leaderElect:
		return "tutti-system", nil
	case o.kubeconfig != "":
		return "", nil
	}
	text, err := os.ReadFile(inClusterNamespace)
	if err != nil {
		return "", fmt.Errorf("namespace of the Lease: %w; say --leader-elect-namespace outside a cluster", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// elector is this process's part in the election, and the client by which it takes part. A nil elector is that of the only
// replica, which always leads.
type elector struct {
	*lease.Election
	client lease.Client
}

// newElector returns the elector; nothing is asked of the API server yet.
func newElector(config *rest.Config, namespace string) (*elector, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("client for the Lease: %w", err)
	}
	identity := instance() + "_" + string(uuid.NewUUID())
	return &elector{lease.New(namespace, identity, systemClock()), client.CoordinationV1().Leases(namespace)}, nil
}

// systemClock reads the clocks of this machine.
func systemClock() lease.Clock {
	start := time.Now()
	return func() lease.Instant {
		now := time.Now()
		return lease.Instant{Wall: now.Round(0), Monotonic: now.Sub(start)}
	}
}

// mayWrite reports whether this process leads, and will for as long as a request may take.
func (e *elector) mayWrite() bool { return e == nil || e.MayWrite() }

// abandon ends all writing and lets the Lease expire.
func (e *elector) abandon() {
	if e != nil {
		e.Abandon()
	}
}

// whileHeld runs the rest of the process until ctx ends or the Lease is lost, and gives the Lease up when all of the rest has
// ended, requests under way included. The channel is closed when this process is elected.
func (e *elector) whileHeld(ctx context.Context, run func(ctx context.Context, elected <-chan struct{}) error) error {
	elected := make(chan struct{})
	if e == nil {
		close(elected)
		return run(ctx, elected)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	electing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- e.Run(electing, e.client, func() { close(elected) })
	}()
	err := run(ctx, elected)
	giveUp()
	return errors.Join(err, <-ended)
}
