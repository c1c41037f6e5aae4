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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// everywhere shows a column of namespaces.
	everywhere bool
}

// watchPeriod is how often a list is read again. The scheduler copies what it shows once a second at most, unless
// jobs of several namespaces are asked for in turn.
const watchPeriod = 2 * time.Second

func newGet(a *clientFlags) *cobra.Command {
	g := &getOptions{endpointFlags: endpointFlags{clientFlags: a}, format: genericclioptions.NewPrintFlags("")}
	command := &cobra.Command{
		Use:   "get (queues | nodes | domains | cycles | config) [NAME...]",
		Short: "Show what the scheduler sees and does: queues, nodes, domains, its last cycles, its configuration",
		Long: `Asks the scheduler that leads, and prints a table.

  queues    the tree of queues: how many jobs run and wait, and of each resource what they hold of the limit (- is none). SHARE is what a
            queue can count on where there is too little for all, BORROWED what it holds beyond its guarantee
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
	kinds := make([]string, 0, len(documents))
	for kind := range documents {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	if len(args) == 0 {
		return fmt.Errorf("say what to get: %s", strings.Join(kinds, ", "))
	}
	if !slices.Contains(kinds, args[0]) {
		return fmt.Errorf("%q: say one of %s", args[0], strings.Join(kinds, ", "))
	}
	return nil
}

// complete completes kinds, and names of items. It says nothing of errors, which would stand in the command line.
func (g *getOptions) complete(command *cobra.Command, args []string, toComplete string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for kind := range documents {
			if strings.HasPrefix(kind, toComplete) {
				found = append(found, kind)
			}
		}
		slices.Sort(found)
	} else if of, known := documents[args[0]]; known {
		if list, err := g.list(command.Context(), of); err == nil {
			for i := range list.Items {
				if name := list.Items[i].GetName(); strings.HasPrefix(name, toComplete) {
					found = append(found, name)
				}
			}
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
	for first := true; ; first = false {
		page, err := g.page(command.Context(), of, names)
		if err != nil {
			return err
		}
		page.Rows = slices.DeleteFunc(page.Rows, func(row metav1.TableRow) bool {
			name, text := rowNamespace(&row)+"/"+fmt.Sprint(row.Cells[0]), ""
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
				return err
			}
		}
		if first && !g.noHeaders {
			p := printer.New(command.ErrOrStderr(), g.environment)
			for _, note := range page.Notes {
				p.Printf("%s\n", note)
			}
		}
		if !g.watch {
			return nil
		}
		again := time.NewTimer(watchPeriod)
		select {
		case <-again.C:
		case <-command.Context().Done():
			again.Stop()
			return nil
		}
	}
}

// rowNamespace is that of the item of a row; empty where items have none.
func rowNamespace(row *metav1.TableRow) string {
	if about, err := meta.Accessor(row.Object.Object); err == nil {
		return about.GetNamespace()
	}
	return ""
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
	list, err := g.list(command.Context(), of)
	if err != nil {
		return err
	}
	objects := make([]map[string]any, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, list.Items[i].Object)
	}
	kept, err := g.choose(of, objects, names)
	if err != nil {
		return err
	}
	items := make([]unstructured.Unstructured, 0, len(kept))
	for _, at := range kept {
		items = append(items, list.Items[at])
	}
	list.Items = items
	return format.PrintObj(list, command.OutOrStdout())
}

// list reads the items.
func (g *getOptions) list(ctx context.Context, of document) (*unstructured.UnstructuredList, error) {
	var text json.RawMessage
	if err := g.ask(ctx, of, "", &text); err != nil {
		return nil, err
	}
	return listOf(of.item, text)
}

// listOf returns a list of items of that kind.
func listOf(item string, text []byte) (*unstructured.UnstructuredList, error) {
	var raw struct {
		Items []map[string]any `json:"items"`
	}
	list := &unstructured.UnstructuredList{}
	if err := errors.Join(json.Unmarshal(text, &raw), json.Unmarshal(text, &list.Object)); err != nil {
		return nil, fmt.Errorf("answer of the scheduler: %w", err)
	}
	delete(list.Object, "items")
	list.SetAPIVersion(debugapi.GroupVersion)
	list.SetKind(item + "List")
	for _, object := range raw.Items {
		object["kind"], object["apiVersion"] = item, debugapi.GroupVersion
		list.Items = append(list.Items, unstructured.Unstructured{Object: object})
	}
	return list, nil
}

// page reads the table of the items that are chosen.
func (g *getOptions) page(ctx context.Context, of document, names []string) (*debugapi.Table, error) {
	page := &debugapi.Table{}
	if err := g.ask(ctx, of, debugapi.AcceptTable, page); err != nil {
		return nil, err
	}
	objects := make([]map[string]any, 0, len(page.Rows))
	for i := range page.Rows {
		row := &page.Rows[i]
		object := map[string]any{}
		if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
			return nil, fmt.Errorf("answer of the scheduler: %w", err)
		}
		row.Object.Object = &unstructured.Unstructured{Object: object}
		objects = append(objects, object)
		for j, cell := range row.Cells {
			if text, isText := cell.(string); isText {
				row.Cells[j] = printer.Escape(text)
			}
		}
	}
	kept, err := g.choose(of, objects, names)
	if err != nil {
		return nil, err
	}
	rows := make([]metav1.TableRow, 0, len(kept))
	for _, at := range kept {
		rows = append(rows, page.Rows[at])
	}
	page.Rows = rows
	return page, nil
}

// ask asks the scheduler. For who may not, it makes the list otherwise, or says where else to look.
func (g *getOptions) ask(ctx context.Context, of document, accept string, into any) error {
	path, include := of.path, accept != "" && g.sortBy != ""
	if include {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "includeObject=Object"
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

// choose returns the positions of the objects with the names, of all without names, in the order asked for. It is an error when
// there is none of a name.
func (g *getOptions) choose(of document, objects []map[string]any, names []string) (kept []int, err error) {
	for i, object := range objects {
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		if len(names) == 0 || slices.ContainsFunc(names, func(one string) bool { return name == one || strings.HasPrefix(name, one+"/") }) {
			kept = append(kept, i)
		}
	}
	for _, one := range names {
		if !slices.ContainsFunc(kept, func(i int) bool {
			name, _, _ := unstructured.NestedString(objects[i], "metadata", "name")
			return name == one || strings.HasPrefix(name, one+"/")
		}) {
			return nil, fmt.Errorf("the scheduler knows no %s %q", strings.ToLower(of.item), one)
		}
	}
	if g.sortBy == "" {
		return kept, nil
	}
	field := jsonpath.New("sort-by").AllowMissingKeys(true)
	if err := field.Parse("{" + strings.Trim(g.sortBy, "{}") + "}"); err != nil {
		return nil, fmt.Errorf("--sort-by %q: %w", g.sortBy, err)
	}
	keys := map[int]string{}
	for _, i := range kept {
		var text strings.Builder
		if err := field.Execute(&text, objects[i]); err != nil {
			return nil, fmt.Errorf("--sort-by %q: %w", g.sortBy, err)
		}
		keys[i] = text.String()
	}
	slices.SortStableFunc(kept, func(a, b int) int { return compareFields(keys[a], keys[b]) })
	return kept, nil
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
