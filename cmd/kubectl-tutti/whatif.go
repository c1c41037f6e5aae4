package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

// askOptions are the flags of what-if and of when.
type askOptions struct {
	endpointFlags
	format *genericclioptions.PrintFlags
	// horizon is --for.
	horizon time.Duration

	files, drains, without, sets, labels []string
	addNodes                             int
	like, config                         string
	everywhere                           bool
}

func newAsk(a *clientFlags, command *cobra.Command) *askOptions {
	q := &askOptions{endpointFlags: endpointFlags{clientFlags: a}, format: genericclioptions.NewPrintFlags("")}
	q.endpointFlags.addFlags(command.Flags())
	q.format.AddFlags(command)
	return q
}

func newWhatIf(a *clientFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "what-if",
		Short: "Show what would happen with more nodes, without some, with another job or another setting",
		Long: `Has the scheduler that leads rehearse on a copy of the cluster, once as it is and once with what the flags suppose, and shows to which
jobs something else happens. Nothing is created or changed.

Changes are made in the order --config, --without, --drain, --set, --add-nodes, --filename. Without --for it is played until nothing moves,
ten minutes at most, in which no pod ends by itself; with --for pods end as far as it is known when.

It needs the Role tutti-scheduler-inspect of the chart, in the scheduler's namespace.`,
		Example: `  # would this job start?
  kubectl tutti what-if -f train.yaml

  # and with two more nodes?
  kubectl tutti what-if -f train.yaml --add-nodes 2 --like gpu-7

  # what if a rack is drained, and what has become of it by tonight?
  kubectl tutti what-if --drain rack=r3 --for 8h

  # what if a minimum is lower, or another job is gone?
  kubectl tutti what-if --set podgroup/train.minMember=4
  kubectl tutti what-if --without ml/big`,
		Args: cobra.NoArgs,
	}
	q := newAsk(a, command)
	flags := command.Flags()
	flags.StringArrayVarP(&q.files, "filename", "f", nil, "file with objects that are created: Pods, PodGroups, Queues, Nodes, PriorityClasses, Jobs; - is the standard input")
	flags.IntVar(&q.addNodes, "add-nodes", 0, "how many nodes are added, with what the node of --like has, without its pods")
	flags.StringVar(&q.like, "like", "", "the node which they are like")
	flags.StringArrayVar(&q.labels, "label", nil, "label KEY=VALUE of the nodes of --add-nodes, in place of the one that the other node has")
	flags.StringArrayVar(&q.drains, "drain", nil, "node, or label selector of nodes, that are cordoned and whose pods go")
	flags.StringArrayVar(&q.without, "without", nil, "job that is gone: [[KIND/]NAMESPACE/]NAME")
	flags.StringArrayVar(&q.sets, "set", nil, "field of a spec: podgroup/NAME.FIELD=VALUE, queue/NAME.FIELD=VALUE or node/NAME.FIELD=VALUE; VALUE is JSON, or a text")
	flags.StringVar(&q.config, "config", "", "file with another configuration of the scheduler")
	flags.DurationVar(&q.horizon, "for", 0, "how far to play, such as 8h; at most 168h")
	command.RunE = func(command *cobra.Command, _ []string) error {
		_, namespace, err := q.load()
		if err != nil {
			return err
		}
		question, err := q.question(namespace, command.InOrStdin())
		if err != nil {
			return err
		}
		if len(question.Changes) == 0 {
			return errors.New("say what to suppose, such as --add-nodes 1 --like NODE; kubectl tutti when shows when jobs start as the cluster is")
		}
		answer, err := q.ask(command, question)
		if err != nil {
			return err
		}
		return q.show(command, answer)
	}
	return command
}

func newWhen(a *clientFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "when [JOB]",
		Short: "Show when jobs that wait are expected to start",
		Long: `Has the scheduler that leads rehearse on a copy of the cluster, up to --for, and shows when each job that waits starts. A pod ends in it when
its activeDeadlineSeconds are over, or the expectedRunSeconds of its PodGroup; a pod without either never does, so that a start which
depends on it stays unknown. Jobs that are created later are not counted. It is no promise.

BASIS is how the ends before a start are known, the weakest of them: Deadline, not later than that, or Estimate, as PodGroups say.

It needs the Role tutti-scheduler-inspect of the chart, in the scheduler's namespace.`,
		Example: `  kubectl tutti when train
  kubectl tutti when -A --for 72h`,
		Args: cobra.MaximumNArgs(1),
	}
	q := newAsk(a, command)
	command.Flags().DurationVar(&q.horizon, "for", 24*time.Hour, "how far to play; at most 168h")
	command.Flags().BoolVarP(&q.everywhere, "all-namespaces", "A", false, "the jobs of all namespaces")
	command.RunE = func(command *cobra.Command, args []string) error {
		_, namespace, err := q.load()
		if err != nil {
			return err
		}
		if q.horizon <= 0 {
			return fmt.Errorf("--for %s: say how far to play, such as 8h", q.horizon)
		}
		answer, err := q.ask(command, &debugapi.Question{For: metav1.Duration{Duration: q.horizon}})
		if err != nil {
			return err
		}
		answer.Jobs = slices.DeleteFunc(answer.Jobs, func(job debugapi.JobDifference) bool {
			_, name, _ := strings.Cut(job.Job, " ")
			in, name, _ := strings.Cut(name, "/")
			return !q.everywhere && in != namespace || len(args) == 1 && name != args[0]
		})
		if len(args) == 1 && len(answer.Jobs) == 0 {
			return fmt.Errorf("no job %s/%s waits", namespace, args[0])
		}
		return q.show(command, answer)
	}
	return command
}

// ask asks the scheduler.
func (q *askOptions) ask(command *cobra.Command, question *debugapi.Question) (*debugapi.Answer, error) {
	answer := &debugapi.Answer{}
	err := q.connected(command.Context(), func(endpoint *connect.Client) error {
		return endpoint.Post(command.Context(), debugapi.PathAsk, "", question, answer)
	})
	return answer, err
}

// show prints the answer as a table, with its notes below, or in a format for programs.
func (q *askOptions) show(command *cobra.Command, answer *debugapi.Answer) error {
	if *q.format.OutputFormat != "" {
		format, err := q.format.ToPrinter()
		if err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &object.Object); err != nil {
			return err
		}
		return format.PrintObj(object, command.OutOrStdout())
	}
	table := answer.Table()
	for i := range table.Rows {
		for j, cell := range table.Rows[i].Cells {
			if text, isText := cell.(string); isText {
				table.Rows[i].Cells[j] = printer.Escape(text)
			}
		}
	}
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(&table.Table, command.OutOrStdout()); err != nil {
		return err
	}
	notes := q.command(command)
	for _, note := range table.Notes {
		notes.Printf("%s\n", note)
	}
	notes.Printf("As of %s, played to %s. Nothing was created or changed.\n", answer.At.UTC().Format(time.TimeOnly), answer.Until.UTC().Format(time.DateTime))
	return nil
}

// question is what the flags suppose.
func (q *askOptions) question(namespace string, input io.Reader) (*debugapi.Question, error) {
	question := &debugapi.Question{For: metav1.Duration{Duration: q.horizon}}
	add := func(change debugapi.Change) { question.Changes = append(question.Changes, change) }
	if q.config != "" {
		text, err := os.ReadFile(q.config)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		add(debugapi.Change{Config: new(string(text))})
	}
	for _, text := range q.without {
		name := &debugapi.JobName{Namespace: namespace}
		parts := strings.Split(text, "/")
		switch len(parts) {
		case 3:
			name.Kind, name.Namespace = parts[0], parts[1]
		case 2:
			name.Namespace = parts[0]
		case 1:
		default:
			return nil, fmt.Errorf("--without %s: write [[KIND/]NAMESPACE/]NAME", text)
		}
		name.Name = parts[len(parts)-1]
		add(debugapi.Change{Without: name})
	}
	for _, text := range q.drains {
		drain := &debugapi.Drain{Node: text}
		if strings.ContainsAny(text, "=,!( ") {
			drain = &debugapi.Drain{Selector: text}
		}
		add(debugapi.Change{Drain: drain})
	}
	for _, text := range q.sets {
		patch, err := patchOf(text, namespace)
		if err != nil {
			return nil, err
		}
		add(debugapi.Change{Set: patch})
	}
	if nodes := (&debugapi.AddNodes{Count: q.addNodes, Like: q.like, Labels: map[string]string{}}); nodes.Count != 0 || nodes.Like != "" {
		for _, text := range q.labels {
			key, value, found := strings.Cut(text, "=")
			if !found {
				return nil, fmt.Errorf("--label %s: write KEY=VALUE", text)
			}
			nodes.Labels[key] = value
		}
		add(debugapi.Change{AddNodes: nodes})
	} else if len(q.labels) > 0 {
		return nil, errors.New("--label: is of the nodes of --add-nodes, and none are added")
	}
	for _, name := range q.files {
		objects, err := readObjects(name, namespace, input)
		if err != nil {
			return nil, fmt.Errorf("-f %s: %w", name, err)
		}
		for _, object := range objects {
			add(debugapi.Change{Submit: object})
		}
	}
	return question, nil
}

// patchOf reads KIND/NAME.FIELD=VALUE. The name may have dots, the field has none.
func patchOf(text, namespace string) (*debugapi.Patch, error) {
	path, value, found := strings.Cut(text, "=")
	kind, rest, hasKind := strings.Cut(path, "/")
	dot := strings.LastIndexByte(rest, '.')
	if !found || !hasKind || dot < 0 {
		return nil, fmt.Errorf("--set %s: write KIND/NAME.FIELD=VALUE, such as podgroup/train.minMember=4", text)
	}
	if !json.Valid([]byte(value)) {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %w", text, err)
		}
		value = string(quoted)
	}
	patch := &debugapi.Patch{Kind: kind, Name: rest[:dot], Spec: fmt.Appendf(nil, "{%q:%s}", rest[dot+1:], value)}
	if strings.EqualFold(kind, "podgroup") {
		patch.Namespace = namespace
	}
	return patch, nil
}

// readObjects reads the objects of a file, - is the input. Those without a namespace are put into this one, unless their kind has
// none.
func readObjects(file, namespace string, input io.Reader) (objects []json.RawMessage, err error) {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		input = opened
	}
	decoder := yaml.NewYAMLOrJSONDecoder(input, 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) == 0:
			continue
		}
		if object.GetNamespace() == "" && !slices.Contains([]string{"Queue", "Node", "PriorityClass"}, object.GetKind()) {
			object.SetNamespace(namespace)
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, text)
	}
}
