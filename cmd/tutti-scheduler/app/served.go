package app

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/metrics"
)

// serverInterval is how often the API server is asked whether it serves what it served at the start.
const serverInterval = time.Hour

// watchServer says, until the context ends, when the API server serves something else than at the start, as after its upgrade:
// what kube-scheduler's plugins read is decided once for each process.
func (p *process) watchServer(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, serverInterval, false, func(ctx context.Context) (bool, error) { // only the end of ctx ends it
		p.compareServer(ctx)
		return false, nil
	})
	return nil
}

// compareServer logs and measures what differs. An API server that does not answer is asked again at the next tick.
func (p *process) compareServer(ctx context.Context) {
	now, err := kube.AskServer(ctx, p.pods)
	if err != nil {
		klog.FromContext(ctx).Info("What the API server serves could not be read", "reason", err.Error())
		return
	}
	queues, err := cluster.ServesQueues(ctx, p.client)
	if err != nil {
		klog.FromContext(ctx).Info("What the API server serves could not be read", "reason", err.Error())
		return
	}
	for cause, differs := range map[string]bool{
		"version": now.Version != p.served.Version, "device-taint-rules": now.DeviceTaintRules != p.served.DeviceTaintRules,
		"queues": queues != p.servesQueues,
	} {
		p.measured.Show(metrics.RestartNeeded, metrics.Is(differs), cause)
		if differs {
			klog.FromContext(ctx).Info("The API server serves something else than when this process started: restart the scheduler",
				"cause", cause, "version", now.Version, "versionAtStart", p.served.Version, "deviceTaintRules", now.DeviceTaintRules, "queues", queues)
		}
	}
}
