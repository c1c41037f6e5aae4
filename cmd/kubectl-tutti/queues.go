package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

func newQueues(a *clientFlags) *cobra.Command {
	k := &endpointFlags{clientFlags: a}
	var watch bool
	command := &cobra.Command{
		Use:   "queues [NAME...]",
		Short: "Show the tree of queues: what each holds of its limit, and how many of its jobs run and wait",
		Long: `Shows the Queue objects as a tree: whether jobs of a queue start, or why not, how many of its jobs, and of those below it, run and
wait, and for each resource what they hold of the limit; - is no limit. SHARE is what a queue can count on where there is too little
for all, BORROWED what it holds beyond its guarantee of a resource that is guaranteed to any queue; - is none. A guarantee is unmet while a job waits
that is within it, and the reason says why. With names, these
queues and those below them. With --watch it goes on until it is interrupted, and shows each queue again that has changed. A resource has a column
where a queue limits or guarantees it, or a job holds it or asks for it. With -o wide, WAITING FOR is how many jobs wait for which reason.

It needs the right to read Queues. The numbers are those of the scheduler at this moment, where it may be asked (see "kubectl tutti --help"); else, and with
--watch, those of the objects' status, which are written every 30 seconds at most. The last line says which, and of when.`,
		Example: `  kubectl tutti queues
  kubectl tutti queues research -o wide
  kubectl tutti queues --watch
  kubectl tutti queues check
  kubectl tutti queues pause research`,
		RunE: func(command *cobra.Command, names []string) error {
			if err := a.checkOutput(outputWide); err != nil {
				return err
			}
			if watch && a.output != "" && a.output != outputWide {
				return fmt.Errorf("--output %s: --watch shows tables only", a.output)
			}
			if watch {
				a.overrides.Timeout = "0" // a watch is one long answer
			}
			read, _, err := a.reader()
			if err != nil {
				return err
			}
			if watch {
				return read.watchQueues(command.Context(), a.command(command), names, a.output == outputWide)
			}
			queues, err := read.listQueues(command.Context())
			if err != nil {
				return err
			}
			if err := allExist(queues, names); err != nil {
				return err
			}
			live := k.live(command.Context(), queues)
			tree := treeOf(queues, names)
			p := a.command(command)
			if printed, err := a.structured(p, v1alpha1.QueueList{Items: inTree(tree)}); printed {
				return err
			}
			writeQueues(p, tree, live, a.output == outputWide)
			return nil
		},
	}
	k.addFlags(command.Flags())
	command.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and show each queue that has changed")
	command.AddCommand(newQueuesCheck(a), newQueuesConvert(a), newQueuesPause(a, "pause", true), newQueuesPause(a, "resume", false))
	return command
}

// listQueues returns all Queues, sorted by name.
func (r *reader) listQueues(ctx context.Context) ([]v1alpha1.Queue, error) {
	list, err := r.groups.SchedulingV1alpha1().Queues().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster knows no Queues (%s): is this version of Tutti installed?", v1alpha1.SchemeGroupVersion)
	case err != nil:
		return nil, fmt.Errorf("list Queues: %w", err)
	}
	slices.SortFunc(list.Items, byName)
	return list.Items, nil
}

// live puts the numbers that the scheduler has now in place of those of the status, and returns what it has said; nil, and
// nothing is changed, where it cannot be asked.
func (k *endpointFlags) live(ctx context.Context, queues []v1alpha1.Queue) *debugapi.Queues {
	if len(queues) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	var said debugapi.Queues
	if k.get(ctx, debugapi.PathQueues, &said) != nil || !said.Leading {
		return nil
	}
	for i := range queues {
		status := &queues[i].Status
		for _, now := range said.Queues {
			if now.Name == queues[i].Name {
				status.Used, status.Share, status.CountedAt = now.Used, now.Share, &metav1.Time{Time: said.At}
				status.Running, status.Waiting, status.WaitingFor = now.RunningJobs, now.WaitingJobs, nil
				for _, one := range now.WaitingFor {
					status.WaitingFor = append(status.WaitingFor, v1alpha1.WaitingReason(one))
				}
			}
		}
	}
	return &said
}

func byName(a, b v1alpha1.Queue) int { return cmp.Compare(a.Name, b.Name) }

func allExist(queues []v1alpha1.Queue, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(queues, func(queue v1alpha1.Queue) bool { return queue.Name == name }) {
			return fmt.Errorf("there is no Queue %q", name)
		}
	}
	return nil
}

// placedQueue is a queue and how deep in the tree it is.
type placedQueue struct {
	*v1alpha1.Queue
	depth int
}

// treeOf returns the queues in the order of the tree: each before those below it, equal ones by name. With names, it has these
// and those below them, as far as they exist. A queue whose parent is missing, or that is above itself, begins a tree of its own.
func treeOf(queues []v1alpha1.Queue, names []string) (tree []placedQueue) {
	below := map[string][]*v1alpha1.Queue{}
	known := map[string]*v1alpha1.Queue{}
	for i := range queues {
		queue := &queues[i]
		known[queue.Name] = queue
		below[queue.Spec.Parent] = append(below[queue.Spec.Parent], queue)
	}
	seen := map[string]bool{}
	var add func(queue *v1alpha1.Queue, depth int)
	add = func(queue *v1alpha1.Queue, depth int) {
		if seen[queue.Name] {
			return
		}
		seen[queue.Name] = true
		tree = append(tree, placedQueue{queue, depth})
		for _, child := range below[queue.Name] {
			add(child, depth+1)
		}
	}
	for _, name := range names {
		if known[name] != nil {
			add(known[name], 0)
		}
	}
	if len(names) > 0 {
		return tree
	}
	for i := range queues {
		if parent := queues[i].Spec.Parent; parent == "" || known[parent] == nil {
			add(&queues[i], 0)
		}
	}
	for i := range queues { // those of a cycle
		add(&queues[i], 0)
	}
	return tree
}

func inTree(tree []placedQueue) (queues []v1alpha1.Queue) {
	for _, queue := range tree {
		queues = append(queues, *queue.Queue)
	}
	return queues
}

func writeQueues(p *printer.Printer, tree []placedQueue, live *debugapi.Queues, wide bool) {
	if len(tree) == 0 {
		p.Printf("There are no Queues: all jobs are in one queue without a limit, whatever name they say.\n")
		return
	}
	p.Table(queueTable(tree, live, wide))
	if live != nil {
		p.Printf("\nNumbers of %s, as the scheduler has them.\n", live.At.UTC().Format(time.RFC3339))
	} else {
		p.Printf("\nNumbers of the status, %s: the scheduler writes them every 30 seconds at most, and could not be asked.\n", countedAt(tree))
	}
}

// countedAt says when the numbers of the queues were counted that were written last.
func countedAt(tree []placedQueue) string {
	var last time.Time
	for _, queue := range tree {
		if at := queue.Status.CountedAt; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if last.IsZero() {
		return "which does not say of when"
	}
	return "counted at " + last.UTC().Format(time.RFC3339) + " or before"
}

// queueTable returns the header, and a row for each queue.
func queueTable(tree []placedQueue, live *debugapi.Queues, wide bool) (header []string, rows [][]printer.Cell) {
	resources := resourcesOf(tree, live)
	header = []string{"QUEUE", "STATE", "RUNNING", "WAITING"}
	for _, name := range resources {
		header = append(header, strings.ToUpper(shortName(name)))
	}
	header = append(header, "SHARE", "GUARANTEE", "BORROWED")
	if wide {
		header = append(header, "WEIGHT", "NAMESPACES", "WAITING FOR", "MESSAGE")
	}
	guarantees, guaranteed := guaranteesOf(tree)
	for _, queue := range tree {
		rows = append(rows, queueRow(queue, resources, borrowed(queue.Queue, guarantees[queue.Name], guaranteed), wide))
	}
	return header, rows
}

// resourcesOf returns the resources that a limit or a guarantee names, that jobs hold or ask for as far as is known, or that are
// CPU or memory, which come first. Each pod is one of the resource pods, which has a column only where it is limited.
func resourcesOf(tree []placedQueue, live *debugapi.Queues) []corev1.ResourceName {
	first := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	more := map[corev1.ResourceName]bool{}
	add := func(lists ...corev1.ResourceList) {
		for _, list := range lists {
			for name := range list {
				more[name] = !slices.Contains(first, name)
			}
		}
	}
	for _, queue := range tree {
		add(queue.Status.Used, queue.Status.Share)
	}
	if live != nil {
		for _, queue := range live.Queues {
			if slices.ContainsFunc(tree, func(shown placedQueue) bool { return shown.Name == queue.Name }) {
				add(queue.Demand, queue.Asked)
			}
		}
	}
	delete(more, corev1.ResourcePods)
	for _, queue := range tree {
		add(queue.Spec.Limit, queue.Spec.Guarantee)
	}
	maps.DeleteFunc(more, func(_ corev1.ResourceName, shown bool) bool { return !shown })
	return append(first, slices.Sorted(maps.Keys(more))...)
}

func queueRow(queue placedQueue, resources []corev1.ResourceName, borrowed corev1.ResourceList, wide bool) []printer.Cell {
	state, message := printer.Cell{Text: "-", Style: printer.Dim}, "-"
	if active := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionActive); active != nil {
		state, message = printer.Cell{Text: active.Reason, Style: printer.Green}, active.Message
		if active.Status != metav1.ConditionTrue {
			state.Style = printer.Warning
		}
	}
	row := []printer.Cell{
		{Text: strings.Repeat("  ", queue.depth) + queue.Name}, state,
		{Text: strconv.Itoa(int(queue.Status.Running))}, {Text: strconv.Itoa(int(queue.Status.Waiting))},
	}
	for _, name := range resources {
		row = append(row, heldCell(queue.Queue, name))
	}
	guarantee := printer.Cell{Text: amounts(queue.Spec.Guarantee)}
	switch met := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionGuaranteeMet); {
	case met == nil || met.Status == metav1.ConditionTrue:
	case met.Status == metav1.ConditionFalse:
		guarantee.Text, guarantee.Style = guarantee.Text+", unmet: "+met.Reason, printer.Warning
		message += "; guarantee: " + met.Message
	case met.Reason == model.UnmetOversubscribed:
		guarantee.Text, guarantee.Style = guarantee.Text+", "+met.Reason, printer.Warning
		message += "; guarantee: " + met.Message
	}
	row = append(row, printer.Cell{Text: amounts(queue.Status.Share)}, guarantee, printer.Cell{Text: amounts(borrowed)})
	if wide {
		weight := int32(1)
		if queue.Spec.Weight != nil {
			weight = *queue.Spec.Weight
		}
		row = append(row, printer.Cells(strconv.Itoa(int(weight)), namespacesOf(queue.Queue), waitingFor(queue.Queue), message)...)
	}
	return row
}

// waitingFor says how many jobs wait for which reason.
func waitingFor(queue *v1alpha1.Queue) string {
	var reasons []string
	for _, one := range queue.Status.WaitingFor {
		reasons = append(reasons, fmt.Sprintf("%d %s", one.Jobs, one.Reason))
	}
	return cmp.Or(strings.Join(reasons, ", "), "-")
}

// guaranteesOf returns what is guaranteed to each queue, by name: its own guarantee, or that of all below it where this is
// more; and which resources are guaranteed to any queue.
func guaranteesOf(tree []placedQueue) (guarantees map[string]corev1.ResourceList, guaranteed map[corev1.ResourceName]bool) {
	guarantees, guaranteed = map[string]corev1.ResourceList{}, map[corev1.ResourceName]bool{}
	below := map[string]corev1.ResourceList{}
	for _, queue := range slices.Backward(tree) { // those below come before
		all := below[queue.Name]
		if all == nil {
			all = corev1.ResourceList{}
		}
		for name, own := range queue.Spec.Guarantee {
			guaranteed[name] = true
			if sum := all[name]; own.Cmp(sum) > 0 {
				all[name] = own
			}
		}
		guarantees[queue.Name] = all
		above := below[queue.Spec.Parent]
		if above == nil {
			above = corev1.ResourceList{}
			below[queue.Spec.Parent] = above
		}
		for name, amount := range all {
			sum := above[name].DeepCopy()
			sum.Add(amount)
			above[name] = sum
		}
	}
	return guarantees, guaranteed
}

// borrowed returns what the queue holds beyond what is guaranteed to it, of the resources that are guaranteed to any queue.
func borrowed(queue *v1alpha1.Queue, guarantee corev1.ResourceList, guaranteed map[corev1.ResourceName]bool) corev1.ResourceList {
	beyond := corev1.ResourceList{}
	for name, held := range queue.Status.Used {
		if held = held.DeepCopy(); guaranteed[name] {
			if held.Sub(guarantee[name]); held.Sign() > 0 {
				beyond[name] = held
			}
		}
	}
	return beyond
}

// heldCell says what the queue holds of a limit: "24/32"; "24/-" is no limit.
func heldCell(queue *v1alpha1.Queue, name corev1.ResourceName) printer.Cell {
	held := queue.Status.Used[name]
	limit, limited := queue.Spec.Limit[name]
	if !limited {
		return printer.Cell{Text: amount(name, held) + "/-"}
	}
	cell := printer.Cell{Text: amount(name, held) + "/" + amount(name, limit)}
	if held.Cmp(limit) >= 0 {
		cell.Style = printer.Warning
	}
	return cell
}

// namespacesOf says whose jobs the queue takes.
func namespacesOf(queue *v1alpha1.Queue) string {
	switch selector := queue.Spec.NamespaceSelector; {
	case queue.Name == v1alpha1.DefaultQueue:
		return "all"
	case selector == nil:
		return v1alpha1.LabelQueue + "=" + queue.Name
	case len(selector.MatchLabels)+len(selector.MatchExpressions) == 0:
		return "all"
	default:
		return metav1.FormatLabelSelector(selector)
	}
}

func newQueuesPause(a *clientFlags, verb string, paused bool) *cobra.Command {
	short := "Let no job of the queue start, nor of those below it; what runs goes on"
	if !paused {
		short = "Let jobs of the queue start again"
	}
	return &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  kubectl tutti queues " + verb + " research",
		Args:    oneOf("the name of a Queue"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			read, _, err := a.reader()
			if err != nil {
				return err
			}
			patch := fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)
			queue, err := read.groups.SchedulingV1alpha1().Queues().Patch(command.Context(), args[0], types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return fmt.Errorf("%s Queue %q: %w", verb, args[0], err)
			}
			p := a.command(command)
			if printed, err := a.structured(p, queue); printed {
				return err
			}
			p.Printf("queue %s: paused is %t\n", queue.Name, queue.Spec.Paused)
			return nil
		},
	}
}
