package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what would become of jobs once queues are law: while there is no Queue object, the names that jobs say mean
// nothing.

func newQueuesCheck(a *clientFlags) *cobra.Command {
	var schedulers []string
	command := &cobra.Command{
		Use:   "check",
		Short: "Show the jobs that no queue takes, or none would take once there is a Queue",
		Long: `Lists each job that has not ended and whose queue does not take it: the queue does not exist, does not take jobs of the namespace,
or has queues below it. Such a job does not start; one that runs goes on. While there is no Queue object the names of queues mean
nothing: then it lists the jobs that would not start once there is one. It exits with an error when it lists a job. Whether a queue
is paused or in error, kubectl tutti queues shows.

It needs the right to read Queues, PodGroups, pods and namespaces of the whole cluster.`,
		Example: `  kubectl tutti queues check`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			read, _, err := a.reader()
			if err != nil {
				return err
			}
			found, err := read.misplaced(command.Context(), schedulers)
			if err != nil {
				return err
			}
			p := a.command(command)
			if printed, err := a.structured(p, found); !printed {
				writeMisplaced(p, found)
			} else if err != nil {
				return err
			}
			if len(found) > 0 {
				return fmt.Errorf("jobs that no queue takes: %d", len(found))
			}
			return nil
		},
	}
	command.Flags().StringArrayVar(&schedulers, "scheduler-name", []string{"tutti"}, "schedulerName that Tutti serves; may be given more than once")
	return command
}

// misplacedJob is a job that its queue does not take.
type misplacedJob struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is PodGroup, ImplicitGroup or Pod.
	Kind  string `json:"kind"`
	Queue string `json:"queue"`
	// Reason is the code that the job would wait with.
	Reason model.Code `json:"reason"`
}

// misplaced returns the jobs that their queues do not take, by namespace and name.
func (r *reader) misplaced(ctx context.Context, schedulers []string) ([]misplacedJob, error) {
	queues, err := r.listQueues(ctx)
	if err != nil {
		return nil, err
	}
	podGroups, err := r.listGroups(ctx, "")
	if err != nil {
		return nil, err
	}
	pods, err := r.listPods(ctx, "", metav1.ListOptions{}, func(pod *corev1.Pod) bool {
		return slices.Contains(schedulers, pod.Spec.SchedulerName)
	})
	if err != nil {
		return nil, err
	}
	namespaces, err := r.pods.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	c := queueCheck{
		queues: map[string]*v1alpha1.Queue{}, labels: map[string]map[string]string{}, tree: model.Snapshot{Dimensions: model.NewDimensions()},
	}
	c.tree.SetQueues(cluster.QueuesOf(queues))
	for i := range queues {
		c.queues[queues[i].Name] = &queues[i]
	}
	for i := range namespaces.Items {
		c.labels[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	return c.collect(podGroups, pods, schedulers), nil
}

// queueCheck knows the tree of queues and the labels of namespaces.
type queueCheck struct {
	queues map[string]*v1alpha1.Queue
	// tree is what the scheduler would make of them.
	tree   model.Snapshot
	labels map[string]map[string]string
}

// collect looks at each job of the overview.
func (c *queueCheck) collect(podGroups []v1alpha1.PodGroup, pods []corev1.Pod, schedulers []string) []misplacedJob {
	ofJob, oldest := map[string]*v1alpha1.PodGroup{}, map[string]*corev1.Pod{}
	for i := range podGroups {
		ofJob[podGroups[i].Namespace+"/"+podGroups[i].Name] = &podGroups[i]
	}
	for i := range pods {
		key := gangOf(&pods[i]).String()
		if first := oldest[key]; first == nil || pods[i].CreationTimestamp.Before(&first.CreationTimestamp) {
			oldest[key] = &pods[i]
		}
	}
	found := []misplacedJob{}
	for _, job := range diagnose.Collect(podGroups, pods, schedulers).Jobs {
		if job.Phase == string(v1alpha1.PodGroupSucceeded) || job.Phase == string(v1alpha1.PodGroupFailed) {
			continue
		}
		key := job.Namespace + "/" + job.Name
		group, pod := ofJob[key], oldest[key]
		switch {
		case job.Kind == "Pod":
			group, pod = nil, oldest[key+"/"]
		case strings.Contains(job.Kind, "."): // of another project
			group, pod = nil, oldest[key+"/"+job.Kind]
		}
		named := ""
		if group != nil {
			named = group.Spec.Queue
		}
		queue := groups.QueueOf(named, pod, c.labels[job.Namespace])
		if reason := c.reason(queue, job.Namespace); reason != "" {
			found = append(found, misplacedJob{job.Namespace, job.Name, job.Kind, queue, reason})
		}
	}
	return found
}

// reason returns the code with which a job of the namespace waits in the queue, empty when the queue takes it.
func (c *queueCheck) reason(name, namespace string) model.Code {
	queue, placed := c.queues[name], c.tree.Queue(name)
	switch {
	case queue == nil && name != v1alpha1.DefaultQueue:
		return model.QueueNotFound
	case placed != nil && placed.Inner:
		return model.QueueNotLeaf
	case queue == nil:
		return ""
	}
	switch namespaces, err := groups.NamespacesOf(queue); {
	case err != nil:
		return model.QueueInvalid
	case !namespaces.Matches(labels.Set(c.labels[namespace])):
		return model.QueueNotAllowed
	}
	return ""
}

func writeMisplaced(p *printer.Printer, found []misplacedJob) {
	if len(found) == 0 {
		p.Printf("Each job is in a queue that takes it.\n")
		return
	}
	var rows [][]printer.Cell
	for _, job := range found {
		rows = append(rows, printer.Cells(job.Namespace, job.Name, job.Kind, job.Queue, string(job.Reason)))
	}
	p.Table([]string{"NAMESPACE", "NAME", "KIND", "QUEUE", "REASON"}, rows)
}
