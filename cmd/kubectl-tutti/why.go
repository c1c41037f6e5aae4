package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// whyOptions are the flags of why.
type whyOptions struct {
	endpointFlags
	format       *genericclioptions.PrintFlags
	verbose, all bool
}

func newWhy(a *clientFlags) *cobra.Command {
	w := &whyOptions{endpointFlags: endpointFlags{clientFlags: a}, format: genericclioptions.NewPrintFlags("")}
	command := &cobra.Command{
		Use:   "why NAME | KIND/NAME | --all",
		Short: "Say why a job waits",
		Long: `Says why a PodGroup, a pod, or what an operator has made of an object waits: what the scheduler found when it looked at it last, with numbers;
its members, and which of them are missing, gated or have failed; since when it waits, and behind which jobs; and what capacity is kept for it.

It prints what the scheduler says of the job. Where the scheduler may not be asked (see "kubectl tutti --help"), it prints what stands in
the status of the PodGroup and in the conditions of the pods, which takes the right to list both in the namespace, and says on standard
error what is left out. Why pods are missing it looks up in the Jobs that would make them, and in their events, as far as they may be read.

NAME is the name of a PodGroup, or of a group without an object, else of a pod; podgroup/NAME and pod/NAME say which of the two. With
--all it says so of every job of the namespace that waits.

KIND/NAME is an object of any other kind: a Job, an MPIJob, a RayCluster, a LeaderWorkerSet. It answers for the jobs of the pods to which
its controllers lead, and for the group objects that it owns. KIND is the kind, its plural or a short name, if need be with its API
group, as in job.batch/NAME. It needs the right to get that object, and the objects between it and its pods, such as the Job of a
launcher; what may not be read is said. Of more than 20 jobs it prints those that wait first, and with -o json all.

With -v it also shows how the scheduler came to its reason: what each action of the last cycle said, in order; the last line of a
job is its reason. "engine" is no action: a panic has ended the cycle before the job had its turn.`,
		Example: `  kubectl tutti why train
  kubectl tutti why -n ml pod/train-3
  kubectl tutti why mpijob/train
  kubectl tutti why leaderworkersets.leaderworkerset.x-k8s.io/serve
  kubectl tutti why --all
  kubectl tutti why train -v
  kubectl tutti why train -o jsonpath='{.items[0].reason}'`,
		Args:              func(command *cobra.Command, args []string) error { return whyArguments(command, args, w.all) },
		ValidArgsFunction: w.completeJobs,
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			known, err := w.known(ctx)
			if err != nil {
				return err
			}
			if known.unasked != nil && w.verbose {
				return known.unasked
			}
			found := answer{jobs: known.waiting()}
			if !w.all {
				if found, err = known.find(ctx, args[0]); err != nil {
					return err
				}
			}
			for _, job := range found.jobs[:min(len(found.jobs), shownJobs)] {
				known.findUnsaid(ctx, job)
				job.Notes = slices.DeleteFunc(job.Notes, func(note string) bool { return slices.Contains(found.details, note) })
			}
			return w.write(command, known, &found)
		},
	}
	w.addFlags(command.Flags())
	w.format.AddFlags(command)
	command.Flags().BoolVarP(&w.verbose, "verbose", "v", false, "also show what each action of the last cycle said; asks the scheduler")
	command.Flags().BoolVar(&w.all, "all", false, "every job of the namespace that waits")
	return command
}

func whyArguments(command *cobra.Command, args []string, all bool) error {
	switch {
	case all && len(args) > 0:
		return errors.New("--all: give no name beside it")
	case !all && len(args) != 1:
		return fmt.Errorf("give the name of a PodGroup or a pod, or KIND/NAME of what makes pods, and nothing else: %s", command.UseLine())
	}
	return nil
}

// answer is what is found of a name.
type answer struct {
	jobs []*debugapi.Job
	// pod is the member that is asked for; empty where the name is not that of a pod.
	pod string
	// head says in one line whose jobs they are, details and notes what else there is to say of it; empty where the jobs are
	// what is asked for.
	head           string
	details, notes []string
}

// shownJobs is how many jobs are printed as text.
const shownJobs = 20

// write prints what is found, as text or in a format for programs.
func (w *whyOptions) write(command *cobra.Command, known *known, found *answer) error {
	below := printer.New(command.ErrOrStderr(), w.environment)
	if known.unasked != nil {
		below.Printf("%s\n", aside(known.unasked))
	} else if !known.Leading {
		below.Printf("%s\n", debugapi.NotLeading)
	}
	if *w.format.OutputFormat != "" {
		return w.writeList(command, known, found)
	}
	p := w.command(command)
	if w.all && len(found.jobs) == 0 {
		p.Printf("No job waits in namespace %s.\n", known.read.namespace)
	}
	if found.head != "" {
		p.Printf("%s\n", found.head)
		for _, detail := range found.details {
			p.Printf("  %s\n", detail)
		}
		if rows := named("Notes", found.notes...); len(rows) > 0 {
			p.Printf("\n")
			p.Rows("  ", rows)
		}
	}
	for i, job := range found.jobs {
		if i > 0 || found.head != "" {
			p.Printf("\n")
		}
		if i == shownJobs && !w.all {
			p.Printf("and %d more: %s\n", len(found.jobs)-i, verbs(found.jobs[i:]))
			break
		}
		for j := range job.Members {
			if member := &job.Members[j]; member.Name == found.pod && job.Source != model.SourcePod.Kind() {
				writePod(p, job, member)
			}
		}
		writeJob(p, job, w.verbose && known.Leading, w.now())
	}
	return nil
}

// writeList prints the jobs in a format for programs.
func (w *whyOptions) writeList(command *cobra.Command, known *known, found *answer) error {
	list := debugapi.JobList{ListMeta: known.ListMeta, Items: make([]debugapi.Job, 0, len(found.jobs)), Notes: slices.Concat(found.details, found.notes)}
	for _, job := range found.jobs {
		list.Items = append(list.Items, *job)
	}
	text, err := json.Marshal(list)
	items := &unstructured.UnstructuredList{}
	if err := errors.Join(err, json.Unmarshal(text, items)); err != nil {
		return err
	}
	return w.print(command, w.format, items, "")
}

// known is what is known of the jobs of a namespace.
type known struct {
	debugapi.JobList
	endpoint *endpointFlags
	// read is of the namespace.
	read *reader
	// unasked is why the scheduler was not asked, so that the list is made of objects; nil where it is the scheduler's.
	unasked error
}

// askTimeout is how long the scheduler is waited for: longer than it lets a request wait, and the connection takes. What else
// there is to say of a job is looked up for as long.
const askTimeout = debugapi.Patience + 5*time.Second

// known asks the scheduler for the jobs of the namespace, and where that is not possible reads the objects.
func (k *endpointFlags) known(ctx context.Context) (*known, error) {
	read, err := k.reader()
	if err != nil {
		return nil, err
	}
	all := &known{endpoint: k, read: read}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if all.unasked = k.get(asking, jobsPath(read.namespace, labels.Everything()), "", &all.JobList); all.unasked == nil {
		return all, nil
	}
	written, err := all.written(ctx)
	if err != nil {
		return nil, err
	}
	all.JobList = *written
	return all, nil
}

// written returns the list that is made of the PodGroups and pods.
func (k *known) written(ctx context.Context) (*debugapi.JobList, error) {
	found, err := k.read.objects(ctx, k.read.namespace, nil)
	if err != nil {
		return nil, err
	}
	ours := k.SchedulerNames
	if len(ours) == 0 {
		ours = []string{defaultScheduler}
	}
	return found.jobs(k.endpoint.now(), ours), nil
}

// search looks into the list that is known and, where it has no such jobs and is the scheduler's, into the one that is made of
// objects, as far as they may be read. It returns the last of these lists, too.
func (k *known) search(ctx context.Context, look func(*debugapi.JobList) answer) (found answer, list *debugapi.JobList, err error) {
	list = &k.JobList
	if found = look(list); len(found.jobs) > 0 || k.unasked != nil {
		return found, list, nil
	}
	written, err := k.written(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return found, list, nil
	case err != nil:
		return answer{}, nil, err
	}
	return look(written), written, nil
}

// aside says what is left out where the scheduler has not answered, and which role gives the right to ask it.
func aside(unasked error) string {
	why, _, _ := strings.Cut(unasked.Error(), "; ")
	missing := "is left out"
	if connect.LacksRight(unasked) {
		missing = "takes the Role tutti-scheduler-inspect"
	}
	return "The scheduler has not answered: " + why + ". This is what PodGroups and pods say. What each group needs, its turn, and what each action " +
		"found " + missing + "."
}

// waiting returns the jobs that wait.
func (k *known) waiting() (jobs []*debugapi.Job) {
	for i := range k.Items {
		if job := &k.Items[i]; job.Waits() && job.Reason != reasonOtherScheduler {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// find returns what a user asks for: a PodGroup, another group or a pod by its name, or the jobs of an object by its kind and
// name.
func (k *known) find(ctx context.Context, what string) (answer, error) {
	word, name, hasKind := strings.Cut(what, "/")
	if !hasKind {
		return k.byName(ctx, "", what)
	}
	switch strings.ToLower(word) {
	case "podgroup", "podgroups", "tpg", "podgroup.scheduling.tutti.dev", "podgroups.scheduling.tutti.dev":
		return k.byName(ctx, model.SourcePodGroup.Kind(), name)
	case "pod", "pods", "po":
		return k.byName(ctx, model.SourcePod.Kind(), name)
	}
	if word == "" || name == "" || strings.Contains(name, "/") {
		return answer{}, fmt.Errorf("%q: say the name of a PodGroup or a pod, or KIND/NAME", what)
	}
	return k.ofOwner(ctx, word, name)
}

// byName returns the job of that source and name, of any source where that is empty: what the scheduler says of it, or else
// what its objects say. It is a noJob where there is none, with the most similar name.
func (k *known) byName(ctx context.Context, source, name string) (answer, error) {
	found, list, err := k.search(ctx, func(list *debugapi.JobList) answer { return among(list, source, name) })
	if err != nil || len(found.jobs) > 0 {
		return found, err
	}
	what := source
	if source == "" {
		if empty := k.emptyGroup(ctx, name); empty != nil {
			return answer{jobs: []*debugapi.Job{empty}}, nil
		}
		what = "PodGroup or pod"
	}
	text := fmt.Sprintf("there is no %s %q in namespace %s", what, name, k.read.namespace)
	if list == &k.JobList && k.unasked == nil {
		text = fmt.Sprintf("the scheduler knows no %s %q in namespace %s", what, name, k.read.namespace)
	}
	groups, _ := groupNames(list)
	var pods []string
	for i := range list.Items {
		for _, member := range list.Items[i].Members {
			pods = append(pods, member.Name)
		}
	}
	if near := config.Nearest(name, groups); near != "" && source != model.SourcePod.Kind() {
		text += fmt.Sprintf("; did you mean PodGroup %q?", near)
	} else if near := config.Nearest(name, pods); near != "" && source != model.SourcePodGroup.Kind() {
		text += fmt.Sprintf("; did you mean pod %q?", near)
	}
	return answer{}, noJob(text)
}

// noJob says that a name is no job's, and no pod's.
type noJob string

func (text noJob) Error() string { return string(text) }

// among returns the job of that source and name in a list. Of several groups of a name it is the PodGroup, else the first
// that waits, with a note about the others. A name that is no group's may be that of a pod.
func among(list *debugapi.JobList, source, name string) (found answer) {
	var groups []*debugapi.Job
	for i := range list.Items {
		job := &list.Items[i]
		if job.Name == name && job.Source != model.SourcePod.Kind() && (source == "" || job.Source == source) {
			groups = append(groups, job)
		}
		isMember := func(member debugapi.Member) bool { return member.Name == name }
		if (source == "" || source == model.SourcePod.Kind()) && slices.ContainsFunc(job.Members, isMember) {
			found = answer{jobs: []*debugapi.Job{job}, pod: name}
		}
	}
	slices.SortStableFunc(groups, func(a, b *debugapi.Job) int { return precedence(a) - precedence(b) })
	if len(groups) == 0 || len(found.jobs) > 0 && groups[0].Phase == "" {
		return found
	}
	var others []string
	for _, other := range groups[1:] {
		label := "a " + other.Source
		if other.Owner() != "" {
			label = "the pods of " + other.Owner()
		}
		others = append(others, label)
	}
	if len(others) > 0 {
		groups[0].Notes = append(groups[0].Notes, fmt.Sprintf("of that name, each on its own: %s; kubectl tutti why pod/NAME tells of that pod's", printer.Few(others)))
	}
	return answer{jobs: groups[:1]}
}

func precedence(job *debugapi.Job) int {
	switch {
	case job.Source == model.SourcePodGroup.Kind() && job.Phase != "":
		return 0
	case job.Waits():
		return 1
	}
	return 2
}

// completeJobs completes the name of a job in a shell.
func (k *endpointFlags) completeJobs(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	known, err := k.known(command.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp // an error would stand in the command line
	}
	var names []string
	for i := range known.Items {
		names = append(names, known.Items[i].Name)
	}
	return completions(names, args, toComplete)
}
