package debugapi

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PathAsk takes a Question by POST, and answers it with an Answer.
const PathAsk = "/debug/ask"

// Question asks what would happen: the loop is rehearsed on a copy of the cluster, once as it is and once with the changes.
// Without changes it asks when each job that waits will start.
type Question struct {
	// Changes are made in the order config, without, drain, set, addNodes, submit, and those of one kind in theirs.
	Changes []Change `json:"changes,omitempty"`
	// For is how far is played, at most 7 days; running pods end then as far as their ends are known. Zero plays until nothing
	// moves, ten minutes at most, in which no pod ends by itself.
	For metav1.Duration `json:"for,omitzero"`
}

// Change is one supposition; exactly one field is set.
type Change struct {
	// Config is the text of another configuration.
	Config *string `json:"config,omitempty"`
	// Without is a job whose pods and group are gone.
	Without *JobName `json:"without,omitempty"`
	// Drain is nodes that are cordoned, and whose pods go.
	Drain *Drain `json:"drain,omitempty"`
	// Set changes the spec of an object.
	Set *Patch `json:"set,omitempty"`
	// AddNodes is nodes that are there, too.
	AddNodes *AddNodes `json:"addNodes,omitempty"`
	// Submit is an object that is created: a Pod, a PodGroup, a Queue, a Node, a PriorityClass, or a Job of Kubernetes.
	Submit json.RawMessage `json:"submit,omitempty"`
}

// JobName names a job. Without a kind it is the only job of that name among all kinds.
type JobName struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Drain names one node, or selects nodes by their labels. Pods of DaemonSets, of the node itself and of no controller stay; the
// others are deleted with their grace, and their controllers make them again.
type Drain struct {
	Node     string `json:"node,omitempty"`
	Selector string `json:"selector,omitempty"`
}

// Patch is a JSON merge patch of the spec of a PodGroup, a Queue or a Node.
type Patch struct {
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	Spec      json.RawMessage `json:"spec"`
}

// AddNodes is so many nodes like another one: with its labels, taints, capacity and isolated CPUs, and without its pods, images,
// volumes and devices of ResourceSlices.
type AddNodes struct {
	Count int    `json:"count"`
	Like  string `json:"like"`
	// Labels replace those of the other node.
	Labels map[string]string `json:"labels,omitempty"`
}

// Answer is what would happen.
type Answer struct {
	ListMeta `json:",inline"`
	// Cycle is the number of the last cycle before the question.
	Cycle uint64 `json:"cycle,omitempty"`
	// Until is up to when the plays went, in virtual time.
	Until time.Time `json:"until"`
	// Supposed says what was changed; nil when nothing was.
	Supposed []string `json:"supposed,omitempty"`
	// Jobs are those to which something else happens with the changes, by namespace and name; without changes those that wait.
	Jobs []JobDifference `json:"jobs"`
	// Same counts the other jobs.
	Same int `json:"same"`
	// Notes say what the plays could not show exactly.
	Notes []string `json:"notes,omitempty"`
}

// NewAnswer returns an answer without jobs, as of that moment.
func NewAnswer(at time.Time, notes []string) *Answer {
	return &Answer{ListMeta: listMeta("Answer", at.UTC(), true), Jobs: []JobDifference{}, Notes: slices.Clone(notes)}
}

// JobDifference is what happens to one job.
type JobDifference struct {
	// Job is its kind, namespace and name.
	Job string `json:"job"`
	// Position is its place among those that wait, from 1; zero where it does not wait, or where the order is not known.
	Position int `json:"position,omitempty"`
	// Now is what happens to it as the cluster is, and Then with the changes; nil where nothing was changed.
	Now  Fate  `json:"now"`
	Then *Fate `json:"then,omitempty"`
}

// FateState is what becomes of a job.
type FateState string

// The states.
const (
	FateNotThere FateState = "NotThere" // it does not exist
	FateWaits    FateState = "Waits"    // it does not start before the end of the play
	FateStarts   FateState = "Starts"   // it gets its minimum for the first time
	FateRuns     FateState = "Runs"     // it has its minimum already, and keeps it
	FateEvicted  FateState = "Evicted"  // it loses members, and may start again
	FateEnds     FateState = "Ends"     // it has its minimum already, and all its pods end
)

// Fate is what becomes of a job in a play.
type Fate struct {
	State FateState `json:"state"`
	// At is when it starts, is evicted, or ends; zero for the other states.
	At time.Time `json:"at,omitzero"`
	// Basis says how a start that waits for ends of pods is known, the weakest of them: Deadline or Estimate; empty when it waits
	// for none.
	Basis string `json:"basis,omitempty"`
	// After are the jobs whose ends came before the start, and when.
	After []JobEnd `json:"after,omitempty"`
	// Nodes are those on which members start, with how many.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Evicts counts the pods that are evicted for it, Loses its members that are evicted or deleted.
	Evicts int `json:"evicts,omitempty"`
	Loses  int `json:"loses,omitempty"`
	// Again is when a job that has lost members has its minimum again; zero when it has not.
	Again time.Time `json:"again,omitzero"`
	// Code and Reason say why it waits at the end of the play; empty when it does not.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// JobEnd is a job and when it ends.
type JobEnd struct {
	Job  string    `json:"job"`
	Ends time.Time `json:"ends"`
}
