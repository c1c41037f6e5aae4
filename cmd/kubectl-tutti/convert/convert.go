// Package convert writes the Queues that the queues of kube-batch and Volcano become (convert.go), and what whole files of
// kube-batch's become: file.go has the documents of a file, workload.go pods wherever they are described, podgroup.go PodGroups.
//
// Their fields are those of staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go in Volcano and of
// pkg/apis/scheduling/v1alpha1/types.go in kube-batch.
package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Queue is a Queue, and what it does not say of the one that it was, or says otherwise.
type Queue struct {
	// TypeMeta and Name identify the object.
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata           `json:"metadata"`
	Spec            v1alpha1.QueueSpec `json:"spec"`
	// Remarks has one sentence for each difference.
	Remarks []string `json:"-"`
}

// Metadata is the metadata of a new object.
type Metadata struct {
	Name string `json:"name"`
}

const (
	groupVolcano   = "scheduling.volcano.sh"
	groupKubeBatch = "scheduling.incubator.k8s.io"
	groupSIGs      = "scheduling.sigs.dev" // kube-batch's v1alpha2
)

// Queues converts the queues of a file in YAML or JSON: objects one after the other, or lists of them. It returns one error for
// all that cannot be converted, each with the object's number in the file, its kind and its name; then it returns no Queue.
func Queues(file io.Reader) ([]Queue, error) {
	var converted []Queue
	var wrong []error
	seen := map[string]bool{}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for number := 1; ; number++ {
		var object unstructured.Unstructured
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			if len(converted)+len(wrong) == 0 {
				return nil, errors.New("there is no queue in it")
			}
			return converted, errors.Join(wrong...)
		case err != nil: // what follows cannot be read either
			return nil, errors.Join(append(wrong, fmt.Errorf("object %d: %w", number, err))...)
		case len(object.Object) == 0: // nothing between two separators
			continue
		}
		err := eachOf(&object, func(object *unstructured.Unstructured) error {
			queue, err := convert(object)
			switch {
			case err != nil:
				return fmt.Errorf("object %d: %s %q: %w", number, object.GetKind(), object.GetName(), err)
			case queue == nil:
			case seen[queue.Metadata.Name]:
				return fmt.Errorf("object %d: %s %q: a queue of this name came before", number, object.GetKind(), object.GetName())
			default:
				seen[queue.Metadata.Name] = true
				converted = append(converted, *queue)
			}
			return nil
		})
		if err != nil {
			wrong, converted = append(wrong, err), nil
		}
	}
}

// eachOf calls do for the object, or for each one of a list, and joins the errors.
func eachOf(object *unstructured.Unstructured, do func(*unstructured.Unstructured) error) error {
	if !object.IsList() {
		return do(object)
	}
	var wrong []error
	items, _, err := unstructured.NestedSlice(object.Object, "items")
	if err != nil {
		return err
	}
	for i, item := range items {
		content, isObject := item.(map[string]any)
		if !isObject {
			wrong = append(wrong, fmt.Errorf("%s: item %d is no object", object.GetKind(), i+1))
			continue
		}
		wrong = append(wrong, do(&unstructured.Unstructured{Object: content}))
	}
	return errors.Join(wrong...)
}

// foreign is what is read of a queue. Volcano and kube-batch have the same names for the same things.
type foreign struct {
	Spec struct {
		Weight      *int32              `json:"weight"`
		Parent      string              `json:"parent"`
		Capability  corev1.ResourceList `json:"capability"`
		Deserved    corev1.ResourceList `json:"deserved"`
		Reclaimable *bool               `json:"reclaimable"`
		Guarantee   struct {
			Resource corev1.ResourceList `json:"resource"`
		} `json:"guarantee"`
	} `json:"spec"`
	Status struct {
		State string `json:"state"`
	} `json:"status"`
}

// lost says of the fields of a spec that have no counterpart what does their work; a field that it does not know has none.
var lost = map[string]string{
	"affinity":        "a queue has no nodes of its own; give its jobs a node selector, and the nodes a taint",
	"dequeueStrategy": "a job that cannot start leaves its turn to the next one of its queue",
	"extendClusters":  "a queue is in one cluster",
	"priority":        "a queue has no priority; a larger weight gives it a larger share",
	"type":            "all queues are of one type",
}

// read are the fields of a spec that have a counterpart.
var read = []string{"weight", "parent", "capability", "deserved", "guarantee", "reclaimable"}

// maxWeight is the largest weight that the API takes.
const maxWeight = 1_000_000

// root is the name of the queue above all others in Volcano, which is no object here.
const root = "root"

// convert returns nil for Volcano's root, which has no counterpart.
func convert(object *unstructured.Unstructured) (*Queue, error) {
	kind := object.GroupVersionKind()
	if kind.Kind != "Queue" || !slices.Contains([]string{groupVolcano, groupKubeBatch, groupSIGs}, kind.Group) {
		return nil, fmt.Errorf("apiVersion %q: only a Queue of %s, %s or %s can be converted",
			object.GetAPIVersion(), groupVolcano, groupKubeBatch, groupSIGs)
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	var from foreign
	if err := json.Unmarshal(text, &from); err != nil {
		return nil, err
	}
	name := object.GetName()
	if name == root && kind.Group == groupVolcano {
		if spec := &from.Spec; len(spec.Capability)+len(spec.Deserved)+len(spec.Guarantee.Resource) > 0 {
			return nil, errors.New("the whole cluster has no limit and no guarantee: make a queue of another name, and make it the parent of the others")
		}
		return nil, nil
	}
	if problems := validation.IsDNS1123Subdomain(name); len(name) > validation.LabelValueMaxLength || len(problems) > 0 {
		return nil, fmt.Errorf("metadata.name: a Queue is named by a label of pods, so that its name is a DNS name of at most %d characters",
			validation.LabelValueMaxLength)
	}
	queue := &Queue{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Queue"},
		Metadata: Metadata{Name: name},
		Spec:     v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}},
	}
	queue.amounts(&from, kind)
	queue.place(&from)
	queue.remarkLost(object)
	return queue, queue.validate()
}

func (q *Queue) remark(format string, args ...any) {
	q.Remarks = append(q.Remarks, fmt.Sprintf(format, args...))
}

// place converts weight, parent and state.
func (q *Queue) place(from *foreign) {
	q.Spec.Weight = new(int32(1))
	if weight := from.Spec.Weight; weight != nil && *weight > 0 {
		q.Spec.Weight = weight
	}
	if from.Spec.Parent != root {
		q.Spec.Parent = from.Spec.Parent
	}
	switch state := from.Status.State; state {
	case "", "Open":
	case "Closed", "Closing":
		q.Spec.Paused = true
		q.remark("status.state %s: it is paused; jobs may be created in a paused queue, and wait", state)
	default:
		q.remark("status.state %s: not taken over", state)
	}
}

// amounts converts what the queue may have at most, and can have back.
func (q *Queue) amounts(from *foreign, kind schema.GroupVersionKind) {
	spec := &from.Spec
	q.Spec.Limit = spec.Capability
	if len(spec.Capability) > 0 && kind.Group != groupVolcano {
		q.remark("spec.capability: kube-batch did not read it; here it is a limit")
	}
	q.Spec.Guarantee = larger(spec.Deserved, spec.Guarantee.Resource)
	if len(spec.Guarantee.Resource) > 0 {
		q.remark("spec.guarantee: Volcano keeps it free while the queue does not use it; here other queues may use it until then")
	}
	if spec.Reclaimable != nil && !*spec.Reclaimable {
		if len(spec.Capability) == 0 {
			q.remark("spec.reclaimable false: not taken over, as there is no capability to guarantee; what runs beyond a guarantee can be reclaimed")
		} else {
			q.Spec.Guarantee = larger(q.Spec.Guarantee, spec.Capability)
			q.remark("spec.reclaimable false: all of its limit is guaranteed, so that nothing within it is reclaimed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Guarantee)) {
		if limit, limited := q.Spec.Limit[name]; limited && limit.Cmp(q.Spec.Guarantee[name]) < 0 {
			q.Spec.Guarantee[name] = limit
			q.remark("the guarantee of %s was more than the limit, and is lowered to it", name)
		}
	}
}

// larger returns, for each resource that either lists, the larger amount; nil when there is none.
func larger(a, b corev1.ResourceList) corev1.ResourceList {
	if len(a)+len(b) == 0 {
		return nil
	}
	most := corev1.ResourceList{}
	maps.Copy(most, a)
	for name, amount := range b {
		if known, both := most[name]; !both || known.Cmp(amount) < 0 {
			most[name] = amount
		}
	}
	return most
}

// remarkLost names what has no counterpart.
func (q *Queue) remarkLost(object *unstructured.Unstructured) {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec") // convert has read it as one
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		if !slices.Contains(read, field) {
			q.remark("spec.%s: not taken over: %s", field, cmp.Or(lost[field], "it has no counterpart"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		if strings.HasPrefix(key, "volcano.sh/hierarchy") {
			q.remark("annotation %s: not taken over: a tree of queues is made by spec.parent", key)
		}
	}
}

// validate says what the API server would refuse.
func (q *Queue) validate() error {
	var wrong []error
	if weight := *q.Spec.Weight; weight > maxWeight {
		wrong = append(wrong, fmt.Errorf("spec.weight %d: the largest is %d", weight, maxWeight))
	}
	if q.Spec.Parent == q.Metadata.Name {
		wrong = append(wrong, errors.New("spec.parent: a queue cannot be its own parent"))
	}
	for _, list := range []struct {
		field   string
		amounts corev1.ResourceList
	}{{"spec.capability", q.Spec.Limit}, {"spec.deserved or spec.guarantee", q.Spec.Guarantee}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			amount := list.amounts[name]
			if amount.Sign() < 0 {
				wrong = append(wrong, fmt.Errorf("%s: %s is %s, which is negative", list.field, name, amount.String()))
			}
			if whole := amount.DeepCopy(); strings.Contains(string(name), "/") && !whole.RoundUp(0) {
				wrong = append(wrong, fmt.Errorf("%s: %s is %s: devices are counted in whole numbers", list.field, name, amount.String()))
			}
		}
	}
	return errors.Join(wrong...)
}
