// Package openb fills a cluster with real demand and lets the scheduler work it off: the nodes and pod shapes of a
// production GPU cluster (openb: Alibaba's cluster-trace-gpu-v2023, as published with hkust-adsl/kubernetes-scheduler-
// simulator) and the gang sizes of real training jobs (the Philly-based traces of stanford-futuredata/gavel).
//
// openb has no gangs and Philly has no pod shapes, so the workload is a composite of both in order of arrival. Nothing of
// the traces is kept here; the folder that holds them is an argument. Only the real sizes and shapes are used, not the
// times: everything is there from the start and nothing ends.
package openb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Node is a row of openb's nodes.
type Node struct {
	Name      string
	MilliCPU  int64
	MemoryMiB int64
	GPUs      int64
	// Model of the GPUs; empty when there are none.
	Model string
}

// Shape is what a row of openb's pods asks for.
type Shape struct {
	MilliCPU  int64
	MemoryMiB int64
	// GPUs is whole GPUs: a share of one is rounded up.
	GPUs int64
	// Shared reports that the row asked for a share of one GPU.
	Shared bool
	// Models are the ones that will do, separated by '|'; empty when any will.
	Models string
}

// Trace is what the files hold, in their order, which is that of arrival.
type Trace struct {
	Nodes  []Node
	Shapes []Shape
	// Sizes are Philly's gangs: GPUs of a training job.
	Sizes []int
}

// Load reads openb/nodes.csv, openb/pods.csv and philly-gavel/jobs.csv below a folder.
func Load(dir string) (*Trace, error) {
	t := &Trace{}
	err := readTable(filepath.Join(dir, "openb", "nodes.csv"), func(r *row) {
		t.Nodes = append(t.Nodes, Node{
			Name: r.text("sn"), MilliCPU: r.number("cpu_milli"), MemoryMiB: r.number("memory_mib"),
			GPUs: r.number("gpu"), Model: r.text("model"),
		})
	})
	if err != nil {
		return nil, err
	}
	err = readTable(filepath.Join(dir, "openb", "pods.csv"), func(r *row) {
		gpus := r.number("num_gpu")
		t.Shapes = append(t.Shapes, Shape{
			MilliCPU: r.number("cpu_milli"), MemoryMiB: r.number("memory_mib"), GPUs: gpus,
			Shared: gpus == 1 && r.number("gpu_milli") < 1000, Models: r.text("gpu_spec"),
		})
	})
	if err != nil {
		return nil, err
	}
	err = readTable(filepath.Join(dir, "philly-gavel", "jobs.csv"), func(r *row) {
		t.Sizes = append(t.Sizes, int(r.number("gang_size")))
	})
	return t, err
}

// row is a line of a table with named columns. The first thing that is wrong with it is kept.
type row struct {
	columns map[string]int
	fields  []string
	err     error
}

func (r *row) text(column string) string {
	i, ok := r.columns[column]
	if !ok {
		r.err = errors.Join(r.err, fmt.Errorf("no column %s", column))
		return ""
	}
	return r.fields[i]
}

func (r *row) number(column string) int64 {
	text := r.text(column)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is less than 0", n)
	}
	if err != nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
	return n
}

// readTable calls take for every row.
func readTable(file string, take func(*row)) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	table := csv.NewReader(f)
	header, err := table.Read()
	if err != nil {
		return fmt.Errorf("trace %s: %w", file, err)
	}
	columns := map[string]int{}
	for i, name := range header {
		columns[name] = i
	}
	rows := 0
	for {
		fields, err := table.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("trace %s: %w", file, err)
		}
		r := &row{columns: columns, fields: fields}
		if take(r); r.err != nil {
			line, _ := table.FieldPos(0)
			return fmt.Errorf("trace %s:%d: %w", file, line, r.err)
		}
		rows++
	}
	if rows == 0 {
		return fmt.Errorf("trace %s: no rows", file)
	}
	return nil
}
