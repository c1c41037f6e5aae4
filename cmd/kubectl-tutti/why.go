package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

func newWhy(a *clientFlags) *cobra.Command {
	k := &endpointFlags{clientFlags: a}
	var verbose, all bool
	command := &cobra.Command{
		Use:   "why NAME | KIND/NAME | --all",
		Short: "Say why a job waits",
		Long: `Says why a PodGroup, a pod, or what an operator has made of an object waits: what the scheduler found when it looked at it last, with numbers;
its members, and which of them are missing, gated or have failed; since when it waits; and what capacity is kept for it. Where there are Queues, and the scheduler may be asked (see "kubectl tutti --help"), it says where the job is in the order of
its queue, and the queue among those beside it. A source of groups that the scheduler's configuration turns off is named, too.

NAME is the name of a PodGroup, or of a group without an object, else of a pod; podgroup/NAME and pod/NAME say which of the two. With
--all it says so of every job of the namespace that waits. It needs the right to list the PodGroups and the pods of the namespace.

KIND/NAME is an object of any other kind: a Job, an MPIJob, a RayCluster, a LeaderWorkerSet. It answers for the jobs of the pods to which
its controllers lead, and for the group objects that it owns. KIND is the kind, its plural or a short name, if need be with its API
group, as in job.batch/NAME. It needs the right to get that object, and the objects between it and its pods, such as the Job of a
launcher; what may not be read is said. Of more than 20 jobs it prints those that wait first, and with -o json all.

With -v it also shows how the scheduler came to its reason: what each action of the last cycle said, in order; the last line of a
job is its reason. "engine" is no action: a panic has ended the cycle before the job had its turn. That asks the scheduler; see
"kubectl tutti --help" for the rights it takes.`,
		Example: `  kubectl tutti why train
  kubectl tutti why -n ml pod/train-3
  kubectl tutti why mpijob/train
  kubectl tutti why leaderworkersets.leaderworkerset.x-k8s.io/serve
  kubectl tutti why --all
  kubectl tutti why train -v
  kubectl tutti why train -o json | jq -r .reason`,
		Args:              func(command *cobra.Command, args []string) error { return whyArguments(command, args, all) },
		ValidArgsFunction: a.completeGroups,
		RunE: func(command *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			if all && verbose {
				return errors.New("--all: -v asks the scheduler about one job; give its name")
			}
			known, err := k.namespace(command.Context())
			if err != nil {
				return err
			}
			if all {
				return k.writeWaiting(command, known)
			}
			kind, name, ours := kindAndName(args[0])
			if ours {
				return k.writeWhy(command, known, kind, name, verbose)
			}
			return k.writeWhyOwner(command, known, args[0], verbose)
		},
	}
	k.addFlags(command.Flags())
	a.addOutput(command, "")
	command.Flags().BoolVarP(&verbose, "verbose", "v", false, "also show what each action of the last cycle said; asks the scheduler")
	command.Flags().BoolVar(&all, "all", false, "every job of the namespace that waits")
	return command
}

func whyArguments(command *cobra.Command, args []string, all bool) error {
	switch {
	case all && len(args) > 0:
		return errors.New("--all: give no name beside it")
	case all:
		return nil
	}
	return oneOf("the name of a PodGroup or a pod, or KIND/NAME of what makes pods")(command, args)
}

// writeWhy prints why an object waits and, if verbose is set, what each action said.
func (k *endpointFlags) writeWhy(
	command *cobra.Command, known *diagnose.Namespace, kind diagnose.Kind, name string, verbose bool,
) error {
	found, err := diagnose.Diagnose(known, kind, name)
	if err != nil { // it may be a group of another project that no pod names
		all, errAll := k.allForeign(command.Context(), known)
		if errAll != nil {
			return errAll
		}
		known.Foreign = all
		if found, err = diagnose.Diagnose(known, kind, name); err != nil {
			return err
		}
	}
	k.findTurn(command.Context(), found)
	k.findUnsaid(command.Context(), found)
	explained := explanation{Diagnosis: found}
	if verbose {
		if explained.Refusals, err = k.refusals(command.Context(), found); err != nil {
			return err
		}
	}
	p := k.command(command)
	if printed, err := k.structured(p, explained); printed {
		return err
	}
	found.Write(p, k.now())
	if verbose {
		writeRefusals(p, explained.Refusals)
	}
	return nil
}

// turnTimeout is how long the order of queues is waited for, without which the answer is whole but for a line.
const turnTimeout = 5 * time.Second

// findTurn asks the scheduler where jobs that wait are in the order of all. Without the right to ask it finds nothing.
func (k *endpointFlags) findTurn(ctx context.Context, jobs ...*diagnose.Diagnosis) {
	var waiting []*diagnose.Diagnosis
	for _, of := range jobs {
		if of.Group != nil {
			of = of.Group
		}
		if of.State == diagnose.Waiting {
			waiting = append(waiting, of)
		}
	}
	if len(waiting) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	var said debugapi.QueueList
	if k.get(ctx, debugapi.PathQueues, "", &said) == nil {
		for _, of := range waiting {
			of.Turn = turnOf(&said, of.Key())
		}
	}
}

// turnOf says where a job is in the order of its queue, and each queue above it among its siblings; empty for a job that is in no
// queue, or does not wait.
func turnOf(said *debugapi.QueueList, job string) string {
	place := -1
	own := slices.IndexFunc(said.Items, func(queue debugapi.Queue) bool {
		place = slices.Index(queue.Waiting, job)
		return place >= 0
	})
	if own < 0 {
		return ""
	}
	name := said.Items[own].Name
	text := "the only waiting job of queue " + name
	if waiting := len(said.Items[own].Waiting); waiting > 1 {
		text = fmt.Sprintf("%s of %d waiting jobs of queue %s", ordinal(place+1), waiting, name)
	}
	for range said.Items { // no further up than there are queues, should one be above itself
		at := slices.IndexFunc(said.Items, func(queue debugapi.Queue) bool { return queue.Name == name })
		if at < 0 {
			break
		}
		turn, parent, siblings, below := said.Items[at].Turn, said.Items[at].Parent, 0, ""
		for _, queue := range said.Items {
			if queue.Parent == parent && queue.Turn > 0 {
				siblings++
			}
		}
		if parent != "" {
			below = " below " + parent
		}
		if turn > 0 && siblings > 1 {
			text += fmt.Sprintf("; %s is %s of %d queues in turn%s", name, ordinal(turn), siblings, below)
		}
		name = parent
	}
	return text
}

// ordinal writes 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// writeWaiting prints why each job of the namespace waits.
func (k *endpointFlags) writeWaiting(command *cobra.Command, known *diagnose.Namespace) error {
	waiting, p := diagnose.AllWaiting(known), k.command(command)
	k.findUnsaid(command.Context(), waiting...)
	if printed, err := k.structured(p, waiting); printed {
		return err
	}
	if len(waiting) == 0 {
		p.Printf("No job waits in namespace %s.\n", known.Name)
	}
	for i, found := range waiting {
		if i > 0 {
			p.Printf("\n")
		}
		found.Write(p, k.now())
	}
	return nil
}

// completeGroups completes the name of a PodGroup in a shell. It says nothing of errors, which would stand in the command line.
func (a *clientFlags) completeGroups(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	read, namespace, err := a.reader()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	groups, err := read.listGroups(command.Context(), namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for i := range groups {
		names = append(names, groups[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// explanation is a diagnosis, with how the scheduler came to it.
type explanation struct {
	*diagnose.Diagnosis
	Refusals *debugapi.RefusalList `json:"refusals,omitempty"`
}

// refusals reads what the last cycle said of a PodGroup or a pod, or of the pod's group.
func (k *endpointFlags) refusals(ctx context.Context, found *diagnose.Diagnosis) (*debugapi.RefusalList, error) {
	name := found.Name
	if found.Group != nil {
		name = found.Group.Name
	}
	query := url.Values{"namespace": {found.Namespace}, "name": {name}}
	said := &debugapi.RefusalList{}
	return said, k.get(ctx, debugapi.PathRefusals+"?"+query.Encode(), "", said)
}

func writeRefusals(p *printer.Printer, said *debugapi.RefusalList) {
	p.Printf("\n")
	switch {
	case !said.Leading:
		p.Printf("This scheduler does not lead: it runs no cycles.\n")
		return
	case len(said.Items) == 0:
		p.Printf("The last cycle did not refuse it.\n")
		return
	}
	var rows [][]printer.Cell
	for _, refusal := range said.Items {
		rows = append(rows, printer.Cells(refusal.Job, refusal.Action, refusal.Code, refusal.Reason))
	}
	p.Table([]string{"JOB", "ACTION", "CODE", "REASON"}, rows)
}

// namespace reads the PodGroups and the pods of the namespace.
func (k *endpointFlags) namespace(ctx context.Context) (*diagnose.Namespace, error) {
	read, namespace, err := k.reader()
	if err != nil {
		return nil, err
	}
	known := &diagnose.Namespace{Name: namespace}
	if known.Groups, err = read.listGroups(ctx, namespace); err != nil {
		return nil, err
	}
	if known.Pods, err = read.listPods(ctx, namespace, metav1.ListOptions{}, nil); err != nil {
		return nil, err
	}
	known.Sources = k.sources(ctx, known.Pods)
	if known.Foreign, err = read.listForeign(ctx, namespace, known.On(), namedBy(known.On(), known.Pods)); err != nil {
		return nil, err
	}
	return known, nil
}

// sources asks the scheduler which sources its configuration turns on, if pods have marks of others than ours. It is nil where
// there are none, and without the right to ask.
func (k *endpointFlags) sources(ctx context.Context, pods []corev1.Pod) sources.Sources {
	named := namedBy(sources.All(), pods)
	others := false
	for source := model.SourceLeaderWorkerSet; source <= model.LastSource; source++ {
		others = others || named(source)
	}
	if !others {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	var said debugapi.ConfigList
	if k.get(ctx, debugapi.PathConfig, "", &said) != nil || len(said.Items) == 0 {
		return nil
	}
	configuration, _, _ := config.DecodePart(said.Items[0].Source, []byte(said.Items[0].Text), config.Known{}) // names of others are not checked here
	if configuration == nil {
		return nil
	}
	return sources.Without(configuration.SourcesOff)
}

// kindAndName splits "train", "podgroup/train", "podgroup.scheduling.x-k8s.io/train" or "pod/train-0"; the first has no kind. It
// reports whether the kind is one of these, of which the cluster need not be asked.
func kindAndName(what string) (kind diagnose.Kind, name string, ours bool) {
	word, name, ok := strings.Cut(what, "/")
	if !ok {
		return diagnose.Any, what, true
	}
	word = strings.ToLower(word)
	switch word {
	case "podgroup", "podgroups", "tpg", "podgroup.scheduling.tutti.dev", "podgroups.scheduling.tutti.dev":
		return diagnose.PodGroup, name, true
	case "pod", "pods", "po":
		return diagnose.Pod, name, true
	}
	for source := model.SourceCoscheduling; source <= model.LastSource; source++ {
		singular := strings.ToLower(source.Kind())
		if source.OwnsPods() {
			continue // it may own groups, too
		}
		if word == singular || word == strings.Replace(singular, ".", "s.", 1) {
			return diagnose.Kind(source.Kind()), name, true
		}
	}
	return diagnose.Any, name, false
}
