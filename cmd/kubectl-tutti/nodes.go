package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// endpointFlags connects to the scheduler itself.
type endpointFlags struct {
	*clientFlags
	options connect.Options
}

func (k *endpointFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.options.Server, "scheduler-server", "",
		"address of the scheduler's endpoint, such as https://10.0.0.7:8443; without it, a port-forward to the pod that leads")
	flags.StringVar(&k.options.Authority, "scheduler-certificate-authority", "",
		"file with the certificates that may have signed that of --scheduler-server; without it, its certificate must be the one in the ConfigMap "+
			debugapi.ConfigMap)
	flags.BoolVar(&k.options.Insecure, "scheduler-insecure-skip-tls-verify", false, "do not check the certificate of --scheduler-server")
	flags.StringVar(&k.options.Token, "scheduler-token", "",
		"token for the scheduler, of the audience "+debugapi.Audience+"; without it, one of the ServiceAccount "+debugapi.Account)
	flags.StringVar(&k.options.Namespace, "scheduler-namespace", "tutti-system", "namespace of the scheduler")
	flags.StringVar(&k.options.Lease, "scheduler-lease", "tutti-scheduler", "name of the scheduler's Lease")
}

// get gets the document at a path.
func (k *endpointFlags) get(ctx context.Context, path string, into any) error {
	config, _, err := k.load()
	if err != nil {
		return err
	}
	endpoint, err := connect.Connect(ctx, config, k.options)
	if err != nil {
		return err
	}
	defer endpoint.Close()
	return endpoint.Get(ctx, path, into)
}

func newNodes(a *clientFlags) *cobra.Command {
	k := &endpointFlags{clientFlags: a}
	var topology bool
	command := &cobra.Command{
		Use:   "nodes [NAME...]",
		Short: "Show the capacity of nodes as the scheduler sees it",
		Long: `Shows, for each node and resource, how much is idle of how much there is; what is nominated to pods for which others were
evicted, and what is reserved for gangs that have waited long (both are part of what is idle, or about to be); and the isolated
CPUs. A node that is marked ! takes no pods.

With --topology it shows the domains of each topology that the configuration declares, such as racks inside of blocks: how many nodes
each has, and on how many of them members of jobs hold a device (or anything, where nodes have no devices). A domain without any
is whole. The last column is what is idle, on nodes that may take a pod, of the extended resource that is scarcest, or of cpu. NAME
is a domain then, such as b1, and those inside of it are shown.

It asks the scheduler; see "kubectl tutti --help" for the rights it takes.`,
		Example: `  kubectl tutti nodes
  kubectl tutti nodes gpu-7 -o wide
  kubectl tutti nodes --topology
  kubectl tutti nodes --topology b1
  kubectl tutti nodes --scheduler-server https://10.0.0.7:8443`,
		RunE: func(command *cobra.Command, names []string) error {
			if err := k.checkOutput(outputWide); err != nil {
				return err
			}
			p := k.command(command)
			if topology {
				all, err := k.topologies(command.Context(), names)
				if err != nil {
					return err
				}
				if printed, err := k.structured(p, all); printed {
					return err
				}
				writeTopologies(p, all)
				return nil
			}
			var nodes debugapi.Nodes
			if err := k.get(command.Context(), debugapi.PathNodes, &nodes); err != nil {
				return err
			}
			if err := selectNodes(&nodes, names); err != nil {
				return err
			}
			if printed, err := k.structured(p, nodes); printed {
				return err
			}
			writeNodes(p, &nodes, k.output == outputWide)
			return nil
		},
	}
	k.addFlags(command.Flags())
	command.Flags().BoolVar(&topology, "topology", false, "show the domains of the topologies that the configuration declares")
	return command
}

// selectNodes keeps the nodes of these names, all when there are none.
func selectNodes(nodes *debugapi.Nodes, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var picked []debugapi.Node
	for _, name := range names {
		i := slices.IndexFunc(nodes.Nodes, func(n debugapi.Node) bool { return n.Name == name })
		if i < 0 {
			return fmt.Errorf("the scheduler knows no node %q", name)
		}
		picked = append(picked, nodes.Nodes[i])
	}
	nodes.Nodes = picked
	return nil
}

func writeNodes(p *printer.Printer, nodes *debugapi.Nodes, wide bool) {
	if len(nodes.Nodes) == 0 {
		p.Printf("The scheduler knows no nodes.\n")
		return
	}
	resources, isolatedAny := columns(nodes, wide)
	header := []string{"NODE", "PODS"}
	for _, name := range resources {
		header = append(header, strings.ToUpper(shortName(name)))
	}
	if isolatedAny {
		header = append(header, "ISOLATED")
	}
	header = append(header, "NOMINATED", "RESERVED")
	if wide {
		header = append(header, "RELEASING", "FREE CPUS", "REMARK")
	}
	var rows [][]printer.Cell
	for i := range nodes.Nodes {
		node := &nodes.Nodes[i]
		row := []printer.Cell{nameCell(node), {Text: fmt.Sprint(node.Pods)}}
		for _, name := range resources {
			row = append(row, roomCell(node, name))
		}
		if isolatedAny {
			row = append(row, isolatedCell(node))
		}
		row = append(row, printer.Cell{Text: reservedText(node.Nominated, wide)}, printer.Cell{Text: reservedText(node.Reserved, wide)})
		if wide {
			row = append(row, printer.Cells(amounts(node.Releasing), freeCPUs(node), nodeRemark(node))...)
		}
		rows = append(rows, row)
	}
	p.Table(header, rows)
	if !nodes.Leading {
		p.Printf("\nThis scheduler does not lead: it does not know what the leader is about to write.\n")
	}
}

// columns returns the resources to show: the usual two, and those that not every node has.
func columns(nodes *debugapi.Nodes, wide bool) (names []corev1.ResourceName, isolatedAny bool) {
	names = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	hidden := []corev1.ResourceName{corev1.ResourcePods, isolated.Resource}
	if !wide {
		hidden = append(hidden, corev1.ResourceEphemeralStorage)
	}
	more := map[corev1.ResourceName]bool{}
	for i := range nodes.Nodes {
		isolatedAny = isolatedAny || nodes.Nodes[i].Isolated != nil
		for name := range nodes.Nodes[i].Allocatable {
			if !slices.Contains(names, name) && !slices.Contains(hidden, name) {
				more[name] = true
			}
		}
	}
	return append(names, slices.Sorted(maps.Keys(more))...), isolatedAny
}

// shortName leaves out the domain of a resource: nvidia.com/gpu is gpu.
func shortName(name corev1.ResourceName) string {
	text := string(name)
	return text[strings.LastIndex(text, "/")+1:]
}

func nameCell(node *debugapi.Node) printer.Cell {
	if node.Unschedulable || node.Refused != "" {
		return printer.Cell{Text: node.Name + " !", Style: printer.Warning}
	}
	return printer.Cell{Text: node.Name}
}

func roomCell(node *debugapi.Node, name corev1.ResourceName) printer.Cell {
	all, has := node.Allocatable[name]
	if !has {
		return printer.Cell{Text: "-", Style: printer.Dim}
	}
	idle := node.Idle[name]
	cell := printer.Cell{Text: amount(name, idle) + "/" + amount(name, all)}
	switch {
	case idle.Sign() < 0:
		cell.Style = printer.Red
	case idle.Sign() == 0:
		cell.Style = printer.Dim
	}
	return cell
}

// amount writes a quantity in short form: memory in Gi with one digit, where it is not whole.
func amount(name corev1.ResourceName, quantity resource.Quantity) string {
	const gi = 1 << 30
	bytes := name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
	if value := quantity.Value(); bytes && (value >= gi || value <= -gi) && value%gi != 0 {
		return fmt.Sprintf("%.1fGi", float64(value)/gi)
	}
	return quantity.String()
}

func isolatedCell(node *debugapi.Node) printer.Cell {
	switch {
	case node.Isolated == nil:
		return printer.Cell{Text: "-", Style: printer.Dim}
	case node.Isolated.Stale:
		return printer.Cell{Text: fmt.Sprintf("%d/%d stale", node.Isolated.Free, node.Isolated.Total), Style: printer.Red}
	}
	return printer.Cell{Text: fmt.Sprintf("%d/%d", node.Isolated.Free, node.Isolated.Total)}
}

// reservedText lists the jobs that capacity is held for, and the amounts if wide is set.
func reservedText(kept []debugapi.Kept, wide bool) string {
	if len(kept) == 0 {
		return "-"
	}
	var texts []string
	for i := range kept {
		text := kept[i].Job
		if wide && kept[i].Pod != "" {
			text += " (" + kept[i].Pod + ")"
		}
		if wide {
			text += ": " + amounts(kept[i].Resources)
		}
		if wide && kept[i].LentUntil != nil {
			text += ", lent until " + kept[i].LentUntil.UTC().Format(time.RFC3339)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	separator := ", "
	if wide {
		separator = "; "
	}
	return strings.Join(texts, separator)
}

// amounts writes a list of resources, without the number of pods.
func amounts(list corev1.ResourceList) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name != corev1.ResourcePods {
			texts = append(texts, amount(name, list[name])+" "+string(name))
		}
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, " ")
}

func freeCPUs(node *debugapi.Node) string {
	if node.Isolated == nil {
		return "-"
	}
	all, err := isolated.ParseSet(node.Isolated.CPUs)
	if err != nil {
		return "?"
	}
	held, err := isolated.ParseSet(node.Isolated.Held)
	if err != nil {
		return "?"
	}
	if free := all.Minus(held); !free.Empty() {
		return free.String()
	}
	return "-"
}

func nodeRemark(node *debugapi.Node) string {
	var remarks []string
	if node.Unschedulable {
		remarks = append(remarks, "cordoned")
	}
	if node.Refused != "" {
		remarks = append(remarks, node.Refused)
	}
	if node.Isolated != nil && node.Isolated.Stale {
		remarks = append(remarks, "the agent for isolated CPUs is not heard of")
	}
	if len(remarks) == 0 {
		return "-"
	}
	return strings.Join(remarks, "; ")
}
