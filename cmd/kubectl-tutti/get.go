package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// document is a list that the scheduler serves.
type document struct {
	path string
	// item is the kind of an item.
	item string
	// aside says where to read without the right to ask the scheduler; empty where nothing else has it.
	aside string
	// otherwise makes the list without the scheduler, of which unasked says why it was not asked; nil where nothing else has it.
	otherwise func(ctx context.Context, unasked error) (*debugapi.JobList, error)
}

// documents are those that get prints, by name.
var documents = map[string]document{
	"queues": {
		path: debugapi.PathQueues, item: "Queue", aside: "kubectl describe queues.scheduling.tutti.dev shows what their statuses say",
	},
	"nodes":   {path: debugapi.PathNodes, item: "Node"},
	"domains": {path: debugapi.PathDomains, item: "Domain"},
	"cycles":  {path: debugapi.PathCycles, item: "Cycle"},
	"config":  {path: debugapi.PathConfig, item: "Config"},
}

// getOptions are the flags of get and of status.
type getOptions struct {
	endpointFlags
	format    *genericclioptions.PrintFlags
	noHeaders bool
	sortBy    string
	watch     bool
	// from is a capture that is asked in place of the scheduler; empty is none.
	from string
	// everywhere shows a column of namespaces.
	everywhere bool
}

// watchPeriod is how often a list is read again. The scheduler makes a document of its state once a second at most,
// unless jobs of several namespaces are asked for in turn.
const watchPeriod = 2 * time.Second

func newGet(a *clientFlags) *cobra.Command {
	g := &getOptions{endpointFlags: endpointFlags{clientFlags: a}, format: genericclioptions.NewPrintFlags("")}
	command := &cobra.Command{
		Use:   "get (queues | nodes | domains | cycles | config) [NAME...]",
		Short: "Show what the scheduler sees and does: queues, nodes, domains, its last cycles, its configuration",
		Long: `Asks the scheduler that leads, and prints a table.

  queues    the tree of queues: how many jobs run and wait, and of each resource what they hold of the limit (- is none). SHARE is what a
            queue can count on where there is too little for all, BORROWED what it holds beyond its guarantee;
            both need the plugin proportion
  nodes     what is idle of what there is; what is nominated to pods for which others were evicted, and what is reserved for gangs that have
            waited long: both are a part of what is idle, or about to be
  domains   the domains of the configured topologies, such as racks inside of blocks. USED is on how many nodes members of jobs hold a device,
            or anything where nodes have no devices. IDLE is of the extended resource that is scarcest, or of cpu
  cycles    the last hundred cycles, the latest last: how long each took, and what it decided. A cycle runs when something has changed
  config    where the configuration came from; its text is in -o yaml, and in -o jsonpath='{.items[0].text}'

NAME is the name of an item; of a domain, it stands for those inside of it, too.

It needs the Role tutti-scheduler-inspect of the chart, in the scheduler's namespace. Your own credentials go to the API server alone.`,
		Example: `  kubectl tutti get queues -o wide
  kubectl tutti get nodes gpu-7
  kubectl tutti get domains b1 --sort-by=.used
  kubectl tutti get nodes --from night.tutti
  kubectl tutti get cycles --watch
  kubectl tutti get config -o jsonpath='{.items[0].text}'`,
		Args:              getArguments,
		ValidArgsFunction: g.complete,
		RunE: func(command *cobra.Command, args []string) error {
			return g.run(command, documents[args[0]], args[1:])
		},
	}
	g.addFlags(command.Flags())
	g.addPrintFlags(command)
	command.Flags().StringVar(&g.from, "from", "", "file of kubectl tutti capture whose queues, nodes or domains are shown, in place of the scheduler's")
	return command
}

func (g *getOptions) addPrintFlags(command *cobra.Command) {
	g.format.AddFlags(command)
	command.Flags().Lookup("output").Usage += `, or wide`
	command.Flags().BoolVar(&g.noHeaders, "no-headers", false, "print no header, and no notes")
	command.Flags().StringVar(&g.sortBy, "sort-by", "", "field to sort by, as a JSONPath of an item, such as .metadata.name")
	command.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on, and show each item again that has changed")
}

func getArguments(_ *cobra.Command, args []string) error {
	kinds := slices.Sorted(maps.Keys(documents))
	if len(args) == 0 {
		return fmt.Errorf("say what to get: %s", strings.Join(kinds, ", "))
	}
	if !slices.Contains(kinds, args[0]) {
		return fmt.Errorf("%q: say one of %s", args[0], strings.Join(kinds, ", "))
	}
	return nil
}

// complete completes kinds, and names of items.
func (g *getOptions) complete(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completions(slices.Sorted(maps.Keys(documents)), nil, toComplete)
	}
	list := &unstructured.UnstructuredList{}
	if err := g.ask(command.Context(), documents[args[0]], "", list); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp // an error would stand in the command line
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return completions(names, args[1:], toComplete)
}

// completions returns the names that begin in that way, each once, without those that are given.
func completions(names, given []string, toComplete string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, name := range names {
		if strings.HasPrefix(name, toComplete) && !slices.Contains(given, name) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func (g *getOptions) run(command *cobra.Command, of document, names []string) error {
	if format := *g.format.OutputFormat; format != "" && format != outputWide {
		return g.printList(command, of, names)
	}
	writer := printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders: g.noHeaders, Wide: *g.format.OutputFormat == outputWide, WithNamespace: g.everywhere,
	})
	shown := map[string]string{}
	first := true
	err := wait.PollUntilContextCancel(command.Context(), watchPeriod, true, func(ctx context.Context) (done bool, err error) {
		page, err := g.page(ctx, of, names)
		if err != nil {
			return false, err
		}
		page.Rows = slices.DeleteFunc(page.Rows, func(row metav1.TableRow) bool {
			name, text := about(&row).GetNamespace()+"/"+fmt.Sprint(row.Cells[0]), ""
			for i, cell := range row.Cells {
				if page.ColumnDefinitions[i].Type != "date" { // it changes as time goes by
					text += fmt.Sprintln(cell)
				}
			}
			same := shown[name] == text
			shown[name] = text
			return same
		})
		if first || len(page.Rows) > 0 {
			if err := writer.PrintObj(&page.Table, command.OutOrStdout()); err != nil {
				return false, err
			}
		}
		if first && !g.noHeaders {
			p := printer.New(command.ErrOrStderr(), g.environment)
			for _, note := range page.Notes {
				p.Printf("%s\n", note)
			}
		}
		first = false
		return !g.watch, nil
	})
	if g.watch && command.Context().Err() != nil {
		return nil
	}
	return err
}

// printList prints the items in a format for programs.
func (g *getOptions) printList(command *cobra.Command, of document, names []string) error {
	if g.watch {
		return fmt.Errorf("--output %s: --watch shows tables only", *g.format.OutputFormat)
	}
	format, err := g.format.ToPrinter()
	if err != nil {
		return fmt.Errorf("--output: %w, wide", err)
	}
	list := &unstructured.UnstructuredList{}
	if err := g.ask(command.Context(), of, "", list); err != nil {
		return err
	}
	itself := func(item *unstructured.Unstructured) *unstructured.Unstructured { return item }
	if list.Items, err = choose(g, of, list.Items, itself, names); err != nil {
		return err
	}
	return format.PrintObj(list, command.OutOrStdout())
}

// page reads the table of the items that are chosen.
func (g *getOptions) page(ctx context.Context, of document, names []string) (*debugapi.Table, error) {
	page := &debugapi.Table{}
	if err := g.ask(ctx, of, debugapi.AcceptTable, page); err != nil {
		return nil, err
	}
	for i := range page.Rows {
		row, object := &page.Rows[i], &unstructured.Unstructured{}
		if err := json.Unmarshal(row.Object.Raw, &object.Object); err != nil {
			return nil, fmt.Errorf("answer of the scheduler: %w", err)
		}
		row.Object.Object = object
		for j, cell := range row.Cells {
			if text, isText := cell.(string); isText {
				row.Cells[j] = printer.Escape(text)
			}
		}
	}
	var err error
	page.Rows, err = choose(g, of, page.Rows, about, names)
	return page, err
}

// about is what a row of a page says of its item: its name, or all of it.
func about(row *metav1.TableRow) *unstructured.Unstructured {
	return row.Object.Object.(*unstructured.Unstructured)
}

// ask asks the scheduler. For who may not, it makes the list otherwise, or says where else to look.
func (g *getOptions) ask(ctx context.Context, of document, accept string, into any) error {
	path, include := of.path, accept != "" && g.sortBy != ""
	if include {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "includeObject=Object"
	}
	if g.from != "" {
		return listOfCapture(ctx, g.from, of, accept, include, into)
	}
	err := g.get(ctx, path, accept, into)
	switch {
	case err != nil && of.otherwise != nil:
		list, err := of.otherwise(ctx, err)
		if err != nil {
			return err
		}
		text, err := debugapi.Encode(list, accept, include)
		return errors.Join(err, json.Unmarshal(text, into))
	case err != nil && of.aside != "":
		return fmt.Errorf("%w\n%s", err, of.aside)
	}
	return err
}

// choose returns the items with the names, all without names, in the order asked for. It is an error when there is none of a
// name. about is what is known of an item.
func choose[T any](g *getOptions, of document, items []T, about func(*T) *unstructured.Unstructured, names []string) ([]T, error) {
	type candidate struct {
		item T
		key  string
	}
	field := jsonpath.New("sort-by").AllowMissingKeys(true)
	if err := field.Parse("{" + strings.Trim(g.sortBy, "{}") + "}"); err != nil {
		return nil, fmt.Errorf("--sort-by %q: %w", g.sortBy, err)
	}
	var kept []candidate
	found := map[string]bool{}
	for i := range items {
		wanted, key, object := len(names) == 0, strings.Builder{}, about(&items[i])
		for _, one := range names {
			if strings.HasPrefix(object.GetName()+"/", one+"/") {
				wanted, found[one] = true, true
			}
		}
		if !wanted {
			continue
		}
		if err := field.Execute(&key, object.Object); err != nil {
			return nil, fmt.Errorf("--sort-by %q: %w", g.sortBy, err)
		}
		kept = append(kept, candidate{items[i], key.String()})
	}
	for _, one := range names {
		if !found[one] {
			return nil, fmt.Errorf("the scheduler knows no %s %q", strings.ToLower(of.item), one)
		}
	}
	if g.sortBy != "" {
		slices.SortStableFunc(kept, func(a, b candidate) int { return compareFields(a.key, b.key) })
	}
	chosen := make([]T, 0, len(kept))
	for _, one := range kept {
		chosen = append(chosen, one.item)
	}
	return chosen, nil
}

// compareFields compares quantities by their amounts, and other texts in natural order.
func compareFields(a, b string) int {
	first, errFirst := resource.ParseQuantity(a)
	second, errSecond := resource.ParseQuantity(b)
	if errFirst == nil && errSecond == nil {
		return first.Cmp(second)
	}
	return model.CompareNatural(a, b)
}
