package sysfs

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cockroachdb/datadriven"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// TestTopologies plays the stories in testdata. "tree" replaces the machine: each line is a path below /sys, or below /proc
// where it starts with proc/, an equals sign and the file's text. "cpus FIRST-LAST ..." instead writes the files of a regular
// machine: threads=N, numa=N, llc=N (groups per NUMA node). "add" adds or replaces lines, "rm" removes files. "publish"
// prints the topology, after a round trip through ParseTopology, and the warnings.
func TestTopologies(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		tree, proc := fstest.MapFS{}, fstest.MapFS{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "tree":
				tree, proc = fstest.MapFS{}, fstest.MapFS{}
				lay(tree, proc, d.Input)
			case "machine":
				tree, proc = fstest.MapFS{}, fstest.MapFS{}
				regular(t, tree, d)
				lay(tree, proc, d.Input)
			case "add":
				lay(tree, proc, d.Input)
			case "rm":
				for name := range strings.FieldsSeq(d.Input) {
					for file := range tree {
						if strings.HasSuffix(file, name) {
							delete(tree, file)
						}
					}
				}
			case "publish":
				return publish(t, tree, proc, d)
			default:
				d.Fatalf(t, "%s is no command", d.Cmd)
			}
			return ""
		})
	})
}

func lay(tree, proc fstest.MapFS, input string) {
	for line := range strings.Lines(input) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		file := &fstest.MapFile{Data: []byte(text + "\n")}
		if below, is := strings.CutPrefix(name, "proc/"); is {
			proc[below] = file
			continue
		}
		tree["devices/system/"+name] = file
	}
}

// regular writes a machine whose threads of one core are as far apart as it has cores, as on most machines.
func regular(t *testing.T, tree fstest.MapFS, d *datadriven.TestData) {
	cpus, threads, nodes, caches := 0, 1, 1, 1
	d.ScanArgs(t, "cpus", &cpus)
	d.MaybeScanArgs(t, "threads", &threads)
	d.MaybeScanArgs(t, "numa", &nodes)
	d.MaybeScanArgs(t, "llc", &caches)
	cores := cpus / threads
	put := func(name, text string) { tree["devices/system/"+name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	byNode := make([]isolated.CPUSet, nodes)
	byCache := make([]isolated.CPUSet, nodes*caches)
	for core := range cores {
		var group isolated.CPUSet
		for thread := range threads {
			group = group.Union(isolated.NewCPUSet(thread*cores + core))
		}
		byNode[core*nodes/cores] = byNode[core*nodes/cores].Union(group)
		byCache[core*nodes*caches/cores] = byCache[core*nodes*caches/cores].Union(group)
		for id := group.Next(0); id >= 0; id = group.Next(id + 1) {
			put("cpu/cpu"+isolated.NewCPUSet(id).String()+"/topology/core_cpus_list", group.String())
			put("cpu/cpu"+isolated.NewCPUSet(id).String()+"/topology/thread_siblings_list", group.String())
		}
	}
	for _, group := range byCache {
		for id := group.Next(0); id >= 0; id = group.Next(id + 1) {
			put("cpu/cpu"+isolated.NewCPUSet(id).String()+"/cache/index3/shared_cpu_list", group.String())
		}
	}
	for i, group := range byNode {
		put("node/node"+isolated.NewCPUSet(i).String()+"/cpulist", group.String())
	}
	put("cpu/online", "0-"+isolated.NewCPUSet(cpus-1).String())
}

func publish(t *testing.T, tree, proc fstest.MapFS, d *datadriven.TestData) string {
	var override *isolated.CPUSet
	if d.HasArg("override") {
		var list string
		d.ScanArgs(t, "override", &list)
		set, err := isolated.ParseSet(list)
		if err != nil {
			return "error: " + err.Error()
		}
		override = &set
	}
	machine, err := Read(tree, override)
	if err != nil {
		return "error: " + err.Error()
	}
	found := machine.Topology()
	found.Mode = isolated.Included // of another package; without it the annotation is invalid
	text, err := found.Text()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := isolated.ParseTopology(text); err != nil {
		t.Errorf("what is published is not understood: %v", err)
	}
	var b strings.Builder
	pretty(t, &b, text)
	for _, warning := range machine.Warnings(proc) {
		b.WriteString("warning: " + warning + "\n")
	}
	return b.String()
}

// pretty writes the annotation with a line per NUMA node.
func pretty(t *testing.T, b *strings.Builder, text string) {
	if !json.Valid([]byte(text)) {
		t.Errorf("no JSON: %s", text)
	}
	head, nodes, _ := strings.Cut(text, `"numa":[`)
	nodes, tail, _ := strings.Cut(nodes, `],"kubelet"`)
	b.WriteString(head + "\"numa\":[\n")
	for node := range strings.SplitAfterSeq(nodes, "},") {
		b.WriteString("  " + node + "\n")
	}
	b.WriteString(`],"kubelet"` + tail + "\n")
}
