package rehearse

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	maxChanges = 32
	maxNodes   = 1000
	maxPods    = 10_000
	maxFor     = 7 * 24 * time.Hour
)

// configurationOf returns the configuration that a question supposes, nil when it supposes none, and what is wrong with the form
// of the question, all of it at once.
func configurationOf(question *debugapi.Question) (configuration []byte, err error) {
	var wrong []error
	if len(question.Changes) > maxChanges {
		wrong = append(wrong, fmt.Errorf("%d changes: at most %d are supposed together", len(question.Changes), maxChanges))
	}
	if d := question.For.Duration; d < 0 || d > maxFor {
		wrong = append(wrong, fmt.Errorf("--for %s: from 0 to %s", d, maxFor))
	}
	for i := range question.Changes {
		change := &question.Changes[i]
		set := 0
		for _, there := range []bool{
			change.Config != nil, change.Without != nil, change.Drain != nil, change.Set != nil, change.AddNodes != nil, change.Submit != nil,
		} {
			if there {
				set++
			}
		}
		switch {
		case set != 1:
			wrong = append(wrong, fmt.Errorf("changes[%d]: exactly one field must be set, and %d are", i, set))
		case change.Config != nil && configuration != nil:
			wrong = append(wrong, errors.New("--config: only one configuration can be supposed"))
		case change.Config != nil:
			configuration = []byte(*change.Config)
		}
	}
	return configuration, errors.Join(wrong...)
}

// suppose makes the changes of a question other than the configuration, and says what it did. The error has everything that is
// wrong with them.
func (r *rehearsal) suppose(question *debugapi.Question) (supposed []string, err error) {
	var wrong []error
	each := func(is func(*debugapi.Change) bool, do func(*debugapi.Change) (string, error)) {
		for i := range question.Changes {
			if change := &question.Changes[i]; is(change) {
				text, err := do(change)
				if err != nil {
					wrong = append(wrong, err)
				}
				supposed = append(supposed, text)
			}
		}
	}
	each(func(c *debugapi.Change) bool { return c.Config != nil }, func(*debugapi.Change) (string, error) { return "another configuration", nil })
	each(func(c *debugapi.Change) bool { return c.Without != nil }, func(c *debugapi.Change) (string, error) { return r.without(c.Without) })
	each(func(c *debugapi.Change) bool { return c.Drain != nil }, func(c *debugapi.Change) (string, error) { return r.drain(c.Drain) })
	each(func(c *debugapi.Change) bool { return c.Set != nil }, func(c *debugapi.Change) (string, error) { return r.set(c.Set) })
	each(func(c *debugapi.Change) bool { return c.AddNodes != nil }, func(c *debugapi.Change) (string, error) { return r.addNodes(c.AddNodes) })
	submitted := r.newSubmission()
	each(func(c *debugapi.Change) bool { return c.Submit != nil }, func(c *debugapi.Change) (string, error) { return submitted.object(c.Submit) })
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return supposed, submitted.create()
}

// without deletes the pods and the group of a job; they are not made again.
func (r *rehearsal) without(name *debugapi.JobName) (string, error) {
	var found []*model.Job
	for _, job := range r.state.LastSnapshot().Jobs {
		if job.Key.Namespace == name.Namespace && job.Key.Name == name.Name && (name.Kind == "" || strings.EqualFold(name.Kind, job.Key.Source.Kind())) {
			found = append(found, job)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no job %s/%s", name.Namespace, name.Name)
	case 1:
	default:
		return "", fmt.Errorf("there are %d jobs %s/%s: say the kind, such as %s", len(found), name.Namespace, name.Name, found[0].Key.Source.Kind())
	}
	job := found[0]
	for _, task := range job.Tasks {
		if pod := r.stage.pod(task.UID); pod != nil {
			orphan := pod.DeepCopy()
			orphan.OwnerReferences = nil
			r.stage.leave(orphan)
		}
	}
	r.stage.dropGroup(job.Key)
	r.removed = append(r.removed, job.Key)
	return fmt.Sprintf("%s is not there; pods: %d", job.Key.Describe(), len(job.Tasks)), nil
}

// drain cordons nodes, and deletes the pods on them that their controllers make again.
func (r *rehearsal) drain(drain *debugapi.Drain) (string, error) {
	selector, err := labels.Parse(drain.Selector)
	if err != nil {
		return "", fmt.Errorf("--drain %s: %w", drain.Selector, err)
	}
	said := drain.Node + drain.Selector
	if (drain.Node == "") == (drain.Selector == "") {
		return "", errors.New("--drain: give the name of a node, or a label selector")
	}
	var names []string
	var gone, stay int
	jobs := map[model.JobKey]bool{}
	for _, node := range r.state.LastSnapshot().Nodes {
		if drain.Node != "" && node.Name != drain.Node || !selector.Matches(labels.Set(node.Object.Labels)) {
			continue
		}
		names = append(names, node.Name)
		r.stage.changeNode(node, func(node *corev1.Node) { node.Spec.Unschedulable = true })
		for _, task := range slices.Clone(node.Tasks) {
			if pod := r.stage.pod(task.UID); pod == nil || !isMadeAgain(pod) {
				stay++
				continue
			}
			gone++
			jobs[task.Job] = true
			r.stage.happened = append(r.stage.happened, event{kind: lost, job: task.Job, node: node.Name})
			r.stage.delete(task.UID, task.GraceSeconds)
		}
	}
	if len(names) == 0 {
		return "", r.noNode("--drain", said)
	}
	return fmt.Sprintf("drained: %s; pods that go: %d, of jobs: %d; pods that stay: %d", strings.Join(names, ", "), gone, len(jobs), stay), nil
}

// noNode says that there is no such node, and which name is the most similar.
func (r *rehearsal) noNode(flag, name string) error {
	var names []string
	for _, node := range r.state.LastSnapshot().Nodes {
		names = append(names, node.Name)
	}
	if nearest := config.Nearest(name, names); nearest != "" {
		return fmt.Errorf("%s %s: there is no such node; %s is the most similar", flag, name, nearest)
	}
	return fmt.Errorf("%s %s: there is no such node", flag, name)
}

// set changes the spec of an object by a JSON merge patch.
func (r *rehearsal) set(patch *debugapi.Patch) (string, error) {
	kind := strings.ToLower(patch.Kind)
	said := kind + "/" + patch.Name
	if patch.Namespace != "" {
		said = kind + "/" + patch.Namespace + "/" + patch.Name
	}
	var err error
	key, node := model.JobKey{Namespace: patch.Namespace, Name: patch.Name}, r.state.LastSnapshot().Node(patch.Name)
	switch {
	case kind == "podgroup" && r.state.Group(key) != nil:
		r.stage.changeGroup(key, func(group *v1alpha1.PodGroup) { err = merge(&group.Spec, patch.Spec) })
	case kind == "queue" && r.state.Queue(patch.Name) != nil:
		r.stage.changeQueue(patch.Name, func(queue *v1alpha1.Queue) { err = merge(&queue.Spec, patch.Spec) })
	case kind == "node" && node != nil:
		r.stage.changeNode(node, func(node *corev1.Node) { err = merge(&node.Spec, patch.Spec) })
	case kind == "node":
		return "", r.noNode("--set node", patch.Name)
	case kind == "podgroup" || kind == "queue":
		err = errors.New("there is no such object")
	default:
		err = errors.New("only the spec of a podgroup, a queue or a node can be set")
	}
	if err != nil {
		return "", fmt.Errorf("--set %s: %w", said, err)
	}
	return fmt.Sprintf("%s: %s", said, patch.Spec), nil
}

// merge applies a JSON merge patch to a spec. A field that the spec does not have is an error.
func merge[T any](spec *T, patch json.RawMessage) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	var whole, part map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return err
	}
	if err := json.Unmarshal(patch, &part); err != nil {
		return err
	}
	if text, err = json.Marshal(merged(whole, part)); err != nil {
		return err
	}
	var changed T
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&changed); err != nil {
		return err
	}
	*spec = changed
	return nil
}

// merged returns the whole with the parts in place of its own; null deletes a field.
func merged(whole, part map[string]any) map[string]any {
	result := maps.Clone(whole)
	if result == nil {
		result = map[string]any{}
	}
	for name, value := range part {
		inner, isMap := value.(map[string]any)
		before, wasMap := result[name].(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isMap && wasMap:
			result[name] = merged(before, inner)
		default:
			result[name] = value
		}
	}
	return result
}

// addNodes makes nodes like another one, without what is on it and what only its own machine has.
func (r *rehearsal) addNodes(add *debugapi.AddNodes) (string, error) {
	like := r.state.LastSnapshot().Node(add.Like)
	switch {
	case add.Count < 1 || add.Count > maxNodes:
		return "", fmt.Errorf("--add-nodes %d: from 1 to %d", add.Count, maxNodes)
	case add.Like == "":
		return "", errors.New("--add-nodes: give the node that they are like, by --like")
	case like == nil:
		return "", r.noNode("--like", add.Like)
	}
	var names []string
	for i := 1; len(names) < add.Count; i++ {
		name := fmt.Sprintf("%s-what-if-%d", add.Like, i)
		if r.state.LastSnapshot().Node(name) != nil {
			continue
		}
		names = append(names, name)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "/" + r.stage.stamp()), CreationTimestamp: r.stage.now(), Labels: maps.Clone(like.Object.Labels)},
			Spec:       corev1.NodeSpec{Taints: like.Object.Spec.Taints, Unschedulable: like.Object.Spec.Unschedulable},
			Status:     *like.Object.Status.DeepCopy(),
		}
		node.Status.Images, node.Status.VolumesAttached, node.Status.VolumesInUse = nil, nil, nil
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[corev1.LabelHostname] = name
		maps.Copy(node.Labels, add.Labels)
		if topology, there := like.Object.Annotations[isolated.TopologyAnnotation]; there {
			node.Annotations = map[string]string{isolated.TopologyAnnotation: topology}
		}
		r.stage.showNode(node)
		r.stage.mailbox.Event(&cluster.LeaseSeen{Lease: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: isolated.LeasePrefix + name, UID: types.UID(name), ResourceVersion: r.stage.stamp()},
			Spec: coordinationv1.LeaseSpec{
				RenewTime: &metav1.MicroTime{Time: r.clock.now}, LeaseDurationSeconds: ptr.To(int32((maxFor + time.Hour) / time.Second)),
			},
		}})
	}
	text := strings.Join(names, ", ")
	if len(names) > 3 {
		text = fmt.Sprintf("%s to %s", names[0], names[len(names)-1])
	}
	return fmt.Sprintf("like node %s, empty: %s", add.Like, text), nil
}
