package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// SchedulerOptions say how to run the scheduler.
type SchedulerOptions struct {
	// Name tells several schedulers in one cluster apart, in messages and in the name of the log. Empty means
	// tutti-scheduler.
	Name string
	// Kubeconfig is its access; empty means the administrator's. See cluster.KubeconfigFor for that of its own account.
	Kubeconfig string
	// Args come after the usual arguments (no leader election, free ports); the last of a kind wins.
	Args []string
	// Path is the program; empty means that it is built from this repository first.
	Path string
	// NotReady does not wait until the scheduler is ready, for one that waits to be elected.
	NotReady bool
}

// Scheduler is a running scheduler. Kill ends it, as the end of its cluster does.
type Scheduler struct {
	*process.Process
	// HealthURL is where it answers /readyz and /healthz.
	HealthURL string
	// URL is where it serves metrics and what it shows of itself, by HTTPS, to those who may; see Get.
	URL string

	token string
}

// StartScheduler runs the scheduler in a cluster and waits until it is ready. It ends at the latest with the cluster.
func StartScheduler(ctx context.Context, c *cluster.Cluster, options SchedulerOptions) (*Scheduler, error) {
	var err error
	if options.Name == "" {
		options.Name = "tutti-scheduler"
	}
	if options.Kubeconfig == "" {
		options.Kubeconfig = c.Kubeconfig()
	}
	if options.Path == "" {
		if options.Path, err = binaries.Build(ctx, os.Stderr, binaries.TuttiScheduler); err != nil {
			return nil, err
		}
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--kubeconfig=" + options.Kubeconfig, "--leader-elect=false",
		"--health-probe-bind-address=" + health, "--metrics-bind-address=" + metrics,
	}, options.Args...)
	p, err := c.Run(options.Name, options.Path, args...)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{Process: p, HealthURL: "http://" + health, URL: "https://" + metrics, token: c.Config().BearerToken}
	if options.NotReady {
		return s, nil
	}
	if err := cluster.WaitReady(ctx, p, s.HealthURL+"/readyz"); err != nil {
		p.Kill()
		return nil, err
	}
	return s, nil
}

// Get returns what the scheduler answers the administrator below URL, such as /metrics. A scheduler schedules, and says that
// it is ready, before it answers there: so the request is repeated while it runs and does not listen.
func (s *Scheduler) Get(ctx context.Context, path string) ([]byte, error) {
	var text []byte
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, cluster.Patience, true, func(ctx context.Context) (bool, error) {
		text, last = s.ask(ctx, path)
		select {
		case <-s.Done():
			return true, nil
		default:
			return !errors.Is(last, syscall.ECONNREFUSED), nil
		}
	})
	return text, errors.Join(last, err)
}

func (s *Scheduler) ask(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%s of the scheduler: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // it made its certificate itself
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s of the scheduler: %w", path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s of the scheduler: %w", path, err)
	}
	return text, nil
}

// Scheduler runs the scheduler for one test, and ends it with the test. If the test fails, it shows the end of the log.
func (e *Env) Scheduler(t testing.TB, options SchedulerOptions) *Scheduler {
	t.Helper()
	var err error
	if options.Path == "" {
		if options.Path, err = e.program(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := StartScheduler(t.Context(), e.Cluster, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Failure())
		}
		s.Kill()
	})
	return s
}

// program builds the scheduler the first time. The go command takes half a second to find that nothing has changed.
func (e *Env) program(ctx context.Context) (string, error) {
	e.building.Lock()
	defer e.building.Unlock()
	if e.built != "" {
		return e.built, nil
	}
	var err error
	e.built, err = binaries.Build(ctx, os.Stderr, binaries.TuttiScheduler)
	return e.built, err
}
