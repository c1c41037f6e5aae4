// Package stage sets up what end-to-end measurements share: a fresh etcd and kube-apiserver with nodes, PodGroups and pods
// of kube-scheduler's own benchmark, and the contender that binds them, each started in the same way. It measures nothing
// but what processes use of the machine.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// Namespace is where the gangs are.
const Namespace = "bench"

// Options say what a stage is made of.
type Options struct {
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Contender is who binds.
	Contender SchedulerUnderTest
	// Nodes is how many nodes there are.
	Nodes int
	// Workers is how many of the measurement's own requests are under way at a time.
	Workers int
	// Program is Tutti's scheduler; empty means that of this repository. Args come after its usual arguments.
	Program string
	Args    []string
	// Dir keeps logs; empty keeps none.
	Dir string
	// Out receives progress.
	Out io.Writer
}

// Bench is a fresh control plane with nodes.
type Bench struct {
	Cluster *cluster.Cluster
	Client  *load.Client
	Nodes   []*corev1.Node
	options Options
	// natives creates groups that kube-scheduler knows; nil when the contender needs none.
	natives *nativePodGroups
}

// Start brings up etcd and kube-apiserver, nothing else, and creates the nodes.
func Start(ctx context.Context, options Options) (*Bench, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Kubernetes: options.Kubernetes, Dir: options.Dir, APIServerArgs: options.Contender.serverArgs(),
	})
	if err != nil {
		return nil, err
	}
	s := &Bench{Cluster: c, Nodes: Nodes(options.Nodes), options: options}
	if err := s.fill(ctx, root); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return s, nil
}

func (s *Bench) fill(ctx context.Context, root string) error {
	err := s.Cluster.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		return err
	}
	if s.Client, err = load.NewClient(s.Cluster.Config(), s.options.Workers); err != nil {
		return err
	}
	if s.options.Contender == KubeGangs {
		if s.natives, err = newNatives(s.Cluster.Config()); err != nil {
			return err
		}
	}
	if err := s.Client.Namespace(ctx, Namespace); err != nil {
		return err
	}
	return s.Client.CreateNodes(ctx, s.Nodes)
}

// CreateGangs creates gangs, each change made to every pod before, and returns the pods as the server has them.
func (s *Bench) CreateGangs(ctx context.Context, gangs Gangs, change func(i int, pod *corev1.Pod)) ([]*corev1.Pod, error) {
	if err := s.CreateGroups(ctx, gangs); err != nil {
		return nil, err
	}
	pods := s.Pods(gangs)
	if change != nil {
		for i, pod := range pods {
			change(i, pod)
		}
	}
	return s.Client.CreatePods(ctx, pods)
}

// CreateGroups creates the groups of gangs without their pods: PodGroups of ours, and for kube-scheduler with gangs its own
// too.
func (s *Bench) CreateGroups(ctx context.Context, gangs Gangs) error {
	if s.natives != nil {
		err := load.Each(ctx, s.Client, gangs.names(), func(ctx context.Context, _ int, name string) error {
			return s.natives.create(ctx, name, gangs.Size)
		})
		if err != nil {
			return err
		}
	}
	return s.Client.CreateGroups(ctx, gangs.groups())
}

// Pods are the members of gangs, as the contender wants them.
func (s *Bench) Pods(gangs Gangs) []*corev1.Pod {
	pods := gangs.pods()
	if s.natives != nil {
		for _, pod := range pods {
			s.natives.join(pod)
		}
	}
	return pods
}

// Scheduler starts the contender's process and does not wait for it. It ends with the stage. That of another contender than Tutti
// has no address.
func (s *Bench) Scheduler(ctx context.Context) (*harness.Scheduler, error) {
	if s.options.Contender != Tutti {
		process, err := s.kubeScheduler(ctx)
		return &harness.Scheduler{Process: process}, err
	}
	return harness.StartScheduler(ctx, s.Cluster, harness.SchedulerOptions{Path: s.options.Program, Args: s.options.Args, NotReady: true})
}

// Stop ends everything.
func (s *Bench) Stop() error { return s.Cluster.Stop() }

// Audit looks at the end of it, as soon as the scheduler has also said so. Other schedulers than Tutti say nothing about
// our PodGroups; of them it is only asked what they did.
func (s *Bench) Audit(ctx context.Context) (*audit.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, cluster.Patience)
	defer cancel()
	var report *audit.Report
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		state, err := audit.Read(ctx, s.Cluster.Config())
		if err != nil {
			return false, err
		}
		report = audit.Audit(state, harness.SchedulerName)
		if s.options.Contender != Tutti {
			delete(report.Found, audit.Unexplained)
		}
		return len(report.Found[audit.Unexplained]) == 0, nil
	})
	if err != nil && report != nil {
		return report, nil // what is missing is in the report
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return report, nil
}
