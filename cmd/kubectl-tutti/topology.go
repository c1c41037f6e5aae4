package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// mostDomains is about how many domains of a topology are printed.
const mostDomains = 100

// topologies reads the domains; those that have these names or are inside of them, when there are names. Then the nodes without a
// label are those in the domains with the names.
func (k *endpointFlags) topologies(ctx context.Context, names []string) (*debugapi.Topologies, error) {
	var all debugapi.Topologies
	if err := k.get(ctx, debugapi.PathTopology, &all); err != nil || len(names) == 0 {
		return &all, err
	}
	found := map[string]bool{}
	isOutside := func(domain debugapi.TopologyDomain) bool {
		outside := true
		for _, name := range names {
			if domain.Path == name || strings.HasPrefix(domain.Path, name+"/") {
				found[name], outside = true, false
			}
		}
		return outside
	}
	for i := range all.Topologies {
		topology, named := &all.Topologies[i], 0 // nodes in domains with the names, of this level and wider ones
		for j := range topology.Levels {
			level := &topology.Levels[j]
			level.Domains, level.Unlabelled = slices.DeleteFunc(level.Domains, isOutside), 0
			for k := range level.Domains {
				domain := &level.Domains[k]
				level.Unlabelled -= domain.Nodes
				if isOutermost(domain.Path, names) {
					named += domain.Nodes
				}
			}
			level.Unlabelled += named
		}
		topology.Levels = slices.DeleteFunc(topology.Levels, func(level debugapi.TopologyLevel) bool { return len(level.Domains) == 0 })
	}
	all.Topologies = slices.DeleteFunc(all.Topologies, func(topology debugapi.Topology) bool { return len(topology.Levels) == 0 })
	for _, name := range names {
		if !found[name] {
			return nil, fmt.Errorf("the scheduler knows no domain %q", name)
		}
	}
	return &all, nil
}

// isOutermost reports whether a domain has one of the names, and is inside of none.
func isOutermost(path string, names []string) bool {
	return slices.Contains(names, path) && !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(path, name+"/") })
}

func writeTopologies(p *printer.Printer, all *debugapi.Topologies) {
	if len(all.Topologies) == 0 {
		p.Printf("The configuration declares no topologies.\n")
	}
	for i := range all.Topologies {
		if i > 0 {
			p.Printf("\n")
		}
		writeTopology(p, &all.Topologies[i])
	}
}

// writeTopology prints the levels of a topology, and then its domains, each below the one around it.
func writeTopology(p *printer.Printer, topology *debugapi.Topology) {
	p.Printf("Topology %s\n", printer.Cell{Text: topology.Name, Style: printer.Bold})
	var levels [][]printer.Cell
	for i := range topology.Levels {
		level := &topology.Levels[i]
		whole := 0
		for j := range level.Domains {
			if level.Domains[j].Used == 0 {
				whole++
			}
		}
		levels = append(levels, printer.Cells(level.Name, fmt.Sprint(len(level.Domains)), fmt.Sprint(whole), fmt.Sprint(len(level.Domains)-whole),
			fmt.Sprint(level.Unlabelled)))
	}
	p.Table([]string{"LEVEL", "DOMAINS", "WHOLE", "IN USE", "NODES WITHOUT"}, levels)
	tree := &domainTree{scarcest: scarcest(topology), printed: map[*debugapi.TopologyDomain]bool{}}
	tree.levels, tree.left = levelsThatFit(topology.Levels)
	if len(tree.levels) == 0 || len(tree.levels[0].Domains) == 0 {
		return
	}
	for i := range tree.levels { // those below the first that are in no domain of the level above come last
		tree.add(i, 0, "")
	}
	p.Printf("\n")
	p.Table([]string{"DOMAIN", "NODES", "USED", "STATE", strings.ToUpper(shortName(tree.scarcest))}, tree.rows)
	for _, left := range tree.left {
		p.Printf("%s\n", left)
	}
}

// levelsThatFit returns the levels from the widest on of which all domains together are not too many, at least the first of which
// some domains remain, and says what is left out.
func levelsThatFit(all []debugapi.TopologyLevel) (fit []debugapi.TopologyLevel, left []string) {
	domains := 0
	for _, level := range all {
		if len(level.Domains) == 0 && len(fit) == 0 {
			continue
		}
		if domains += len(level.Domains); domains <= mostDomains {
			fit = append(fit, level)
			continue
		}
		if len(fit) > 0 {
			left = append(left, fmt.Sprintf("… and %d domains of the level %s; name a domain to see those inside", len(level.Domains), level.Name))
			continue
		}
		left = append(left, fmt.Sprintf("… and %d more of the level %s; -o json has them all", len(level.Domains)-mostDomains, level.Name))
		level.Domains = level.Domains[:mostDomains]
		fit = append(fit, level)
	}
	return fit, left
}

// domainTree are the rows of the domains of one topology.
type domainTree struct {
	levels   []debugapi.TopologyLevel
	left     []string
	scarcest corev1.ResourceName
	rows     [][]printer.Cell
	printed  map[*debugapi.TopologyDomain]bool
}

// add adds the domains of a level whose path begins so, each with those inside of it.
func (t *domainTree) add(level, depth int, around string) {
	if level == len(t.levels) {
		return
	}
	domains := t.levels[level].Domains
	for i := range domains {
		domain := &domains[i]
		if t.printed[domain] || !strings.HasPrefix(domain.Path, around) {
			continue
		}
		t.printed[domain] = true
		state := printer.Cell{Text: "whole", Style: printer.Green}
		if domain.Used > 0 {
			state = printer.Cell{Text: "in use"}
		}
		idle, all := domain.Idle[t.scarcest], domain.Allocatable[t.scarcest]
		t.rows = append(t.rows, []printer.Cell{
			{Text: strings.Repeat("  ", depth) + t.levels[level].Name + " " + domain.Path}, {Text: fmt.Sprint(domain.Nodes)},
			{Text: fmt.Sprint(domain.Used)}, state, {Text: amount(t.scarcest, idle) + "/" + amount(t.scarcest, all)},
		})
		t.add(level+1, depth+1, domain.Path+"/")
	}
}

// scarcest returns the extended resource of which the smallest part is idle in the domains of the widest level, the first by name
// of several; cpu where there is none.
func scarcest(topology *debugapi.Topology) corev1.ResourceName {
	idle, all := map[corev1.ResourceName]resource.Quantity{}, map[corev1.ResourceName]resource.Quantity{}
	for _, level := range topology.Levels {
		for i := range level.Domains {
			add(idle, level.Domains[i].Idle)
			add(all, level.Domains[i].Allocatable)
		}
		if len(level.Domains) > 0 {
			break
		}
	}
	least, part := corev1.ResourceCPU, 0.0
	for name, offered := range all {
		if !strings.Contains(string(name), "/") || name == isolated.Resource || offered.IsZero() {
			continue
		}
		free := idle[name]
		of := free.AsApproximateFloat64() / offered.AsApproximateFloat64()
		if least == corev1.ResourceCPU || of < part || of == part && name < least {
			least, part = name, of
		}
	}
	return least
}

func add(sums map[corev1.ResourceName]resource.Quantity, list corev1.ResourceList) {
	for name, amount := range list {
		sum := sums[name]
		sum.Add(amount)
		sums[name] = sum
	}
}
