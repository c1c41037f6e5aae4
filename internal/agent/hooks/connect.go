package hooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
)

// ErrStuck is a runtime that accepted the connection and then does not answer. The call that waits for it cannot be
// cancelled; the process should end.
var ErrStuck = errors.New("the container runtime does not answer")

// Link is one connection to the runtime.
type Link struct {
	stub stub.Stub
	// synchronized, doubted and lost are each closed once, when that has happened.
	synchronized, doubted, lost chan struct{}
	heard, doubt, gone          sync.Once
}

// stubPlugin is the plugin on one connection: the hooks, and whether the runtime has synchronized over it.
type stubPlugin struct {
	*Plugin
	link *Link
}

// Synchronize passes on the running containers, and records that it was called.
func (s *stubPlugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) (
	[]*api.ContainerUpdate, error,
) {
	updates, err := s.Plugin.Synchronize(ctx, pods, containers)
	if err == nil {
		s.link.heard.Do(func() { close(s.link.synchronized) })
	}
	return updates, err
}

// CreateContainer passes on the container, and records a refusal for CPUs that may be free.
func (s *stubPlugin) CreateContainer(ctx context.Context, sandbox *api.PodSandbox, container *api.Container) (
	*api.ContainerAdjustment, []*api.ContainerUpdate, error,
) {
	adjust, updates, err := s.Plugin.CreateContainer(ctx, sandbox, container)
	if refusal := (*enforce.Refusal)(nil); errors.As(err, &refusal) && refusal.Idle {
		s.link.doubt.Do(func() { close(s.link.doubted) })
	}
	return adjust, updates, err
}

// Connect registers the plugin at the runtime's socket. The runtime then calls Synchronize, later. An error that is not
// ErrStuck may be tried again.
//
// A request that the plugin does not answer, or that finds its connection broken, fails: a container does not start without
// its CPUs. A plugin that was slow stays connected, so that its answer decides the next request. Runtimes older than the
// policy ignore it; then only the runtime's validator protects.
func (h *Plugin) Connect(ctx context.Context, socket string, timer clock.Clock, limit time.Duration) (*Link, error) {
	conn, err := (&net.Dialer{Timeout: limit}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("NRI: %w", err)
	}
	link := &Link{synchronized: make(chan struct{}), doubted: make(chan struct{}), lost: make(chan struct{})}
	link.stub, err = stub.New(&stubPlugin{Plugin: h, link: link},
		stub.WithPluginName(Name), stub.WithPluginIdx(Index), stub.WithConnection(conn), stub.WithLogger(logger{h.options.Log}),
		stub.WithOnClose(link.close), stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("NRI: %w", err)
	}
	started := make(chan error, 1)
	go func() { started <- link.stub.Start(ctx) }()
	alarm := timer.NewTimer(limit)
	defer alarm.Stop()
	select {
	case err := <-started:
		if err != nil {
			return nil, fmt.Errorf("NRI: %w", err)
		}
		return link, nil
	case <-alarm.C():
		conn.Close()
		return nil, ErrStuck
	}
}

// Synchronized is closed when the runtime has reported all running containers.
func (l *Link) Synchronized() <-chan struct{} { return l.synchronized }

// Doubted is closed when a container was refused CPUs that are held for a pod of which no container runs. The pod may be gone:
// containerd 2.4, when it has been restarted, sends no event about a sandbox that it made before (internal/nri/nri.go:
// needsStopping, needsRemoval). Only a new connection lists the sandboxes again.
func (l *Link) Doubted() <-chan struct{} { return l.doubted }

// Lost is closed when the connection is lost.
func (l *Link) Lost() <-chan struct{} { return l.lost }

// Close ends the connection.
func (l *Link) Close() { l.stub.Stop() }

// UpdateContainers moves containers; see Updater.
func (l *Link) UpdateContainers(updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return l.stub.UpdateContainers(updates)
}

func (l *Link) close() { l.gone.Do(func() { close(l.lost) }) }

// logger writes the stub's log lines.
type logger struct{ to klog.Logger }

// Debugf writes at a high verbosity.
func (l logger) Debugf(_ context.Context, format string, args ...any) {
	l.to.V(4).Info("NRI", "said", fmt.Sprintf(format, args...))
}

// Infof writes what happens once per connection.
func (l logger) Infof(_ context.Context, format string, args ...any) {
	l.to.V(2).Info("NRI", "said", fmt.Sprintf(format, args...))
}

// Warnf writes possible problems.
func (l logger) Warnf(_ context.Context, format string, args ...any) {
	l.to.Info("NRI warns", "said", fmt.Sprintf(format, args...))
}

// Errorf writes errors; they are returned as well.
func (l logger) Errorf(_ context.Context, format string, args ...any) {
	l.to.Info("NRI failed", "said", fmt.Sprintf(format, args...))
}
