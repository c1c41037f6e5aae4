package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// This file turns lines into objects as users and kubelets would write them. Identity and time are the world's.

func newNode(words []word) (*corev1.Node, error) {
	node := &corev1.Node{}
	amounts := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	var cpus isolation
	for _, w := range words {
		done, err := cpus.read(w)
		if done && err == nil {
			continue
		}
		switch w.key {
		case "labels":
			node.Labels, err = pairs(w.value)
		case "annotations":
			node.Annotations, err = pairs(w.value)
		case "taints":
			node.Spec.Taints, err = taints(w.value)
		case "unschedulable":
			node.Spec.Unschedulable = true
		case "allocatable":
			amounts = nil
		case "features":
			node.Status.DeclaredFeatures = strings.Split(w.value, ",")
		case "avoids":
			err = avoid(node, w)
		case "images":
			for _, name := range strings.Split(w.value, ",") {
				node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: 1 << 30})
			}
		default:
			err = amount(amounts, w)
		}
		if err != nil {
			return nil, err
		}
	}
	node.Status.Allocatable, node.Status.Capacity = amounts, amounts
	return node, cpus.annotate(node)
}

func newGroup(words []word) (*v1alpha1.PodGroup, error) {
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{SchedulerName: "tutti"}}
	for _, w := range words {
		var err error
		switch w.key {
		case "min":
			group.Spec.MinMember, err = number(w)
		case "roles":
			for _, role := range strings.Split(w.value, ",") {
				name, minimum, _ := strings.Cut(role, ":")
				var n int32
				n, err = number(word{role, minimum})
				group.Spec.Roles = append(group.Spec.Roles, v1alpha1.Role{Name: name, MinMember: n})
			}
		case "topology": // rack,block~@leader+worker: ~ is preferred, the roles come after @
			for _, entry := range strings.Split(w.value, ",") {
				group.Spec.Topology = append(group.Spec.Topology, sharedDomain(entry))
			}
		case "class":
			group.Spec.PriorityClassName = w.value
		case "scheduler": // - is that of its members
			group.Spec.SchedulerName = strings.Trim(w.value, "-")
		case "queue":
			group.Spec.Queue = w.value
		case "expected":
			group.Spec.ExpectedRunSeconds, err = seconds(w)
		case "preemption":
			policy := corev1.PreemptionPolicy(w.value)
			group.Spec.PreemptionPolicy = &policy
		case "age":
		default:
			err = fmt.Errorf("a group has no %q", w.key)
		}
		if err != nil {
			return nil, err
		}
	}
	return group, nil
}

func newNamespace(words []word) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	for _, w := range words {
		if w.key != "labels" {
			return nil, fmt.Errorf("a namespace has no %q", w.key)
		}
		var err error
		if namespace.Labels, err = pairs(w.value); err != nil {
			return nil, err
		}
	}
	return namespace, nil
}

func newClass(words []word) (*schedulingv1.PriorityClass, error) {
	class := &schedulingv1.PriorityClass{}
	for _, w := range words {
		var err error
		switch w.key {
		case "value":
			class.Value, err = number(w)
		case "preemption":
			policy := corev1.PreemptionPolicy(w.value)
			class.PreemptionPolicy = &policy
		default:
			err = fmt.Errorf("a class has no %q", w.key)
		}
		if err != nil {
			return nil, err
		}
	}
	return class, nil
}

// newBudget reads how many of the pods that the selector finds may be evicted, how many are healthy of how many desired, what
// becomes of unready ones, and by how many generations the disruption controller is behind.
func newBudget(one line) (*policyv1.PodDisruptionBudget, error) {
	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
	for _, w := range one.words {
		var err error
		switch w.key {
		case "allowed":
			budget.Status.DisruptionsAllowed, err = number(w)
		case "selector":
			budget.Spec.Selector.MatchLabels, err = pairs(w.value)
		case "unready":
			policy := policyv1.UnhealthyPodEvictionPolicyType(w.value)
			budget.Spec.UnhealthyPodEvictionPolicy = &policy
		case "healthy":
			_, err = fmt.Sscanf(w.value, "%d/%d", &budget.Status.CurrentHealthy, &budget.Status.DesiredHealthy)
		case "behind":
			var n int32
			n, err = number(w)
			budget.Status.ObservedGeneration = -int64(n)
		default:
			err = fmt.Errorf("a budget has no %q", w.key)
		}
		if err != nil {
			return nil, err
		}
	}
	return budget, nil
}

// amount reads a resource and its quantity.
func amount(list corev1.ResourceList, w word) error {
	known := strings.ContainsAny(w.key, "/") || strings.HasPrefix(w.key, "hugepages-")
	switch corev1.ResourceName(w.key) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		known = true
	}
	if !known {
		return fmt.Errorf("no such word: %q", w.key)
	}
	quantity, err := resource.ParseQuantity(w.value)
	if err != nil {
		return fmt.Errorf("%s: %w", w.key, err)
	}
	list[corev1.ResourceName(w.key)] = quantity
	return nil
}

// seconds reads a duration in whole seconds.
func seconds(w word) (*int64, error) {
	span, err := time.ParseDuration(w.value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.key, err)
	}
	n := int64(span / time.Second)
	return &n, nil
}

func number(w word) (int32, error) {
	n, err := strconv.ParseInt(w.value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", w.key, err)
	}
	return int32(n), nil
}

// pairs reads a=b,c=d; a key may stand alone.
func pairs(text string) (map[string]string, error) {
	if text == "" {
		return nil, errors.New("labels are written a=b,c=d")
	}
	all := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		all[key] = value
	}
	return all, nil
}

// taints reads key=value:Effect,key:Effect.
func taints(text string) ([]corev1.Taint, error) {
	var all []corev1.Taint
	for _, one := range strings.Split(text, ",") {
		about, effect, found := strings.Cut(one, ":")
		if !found {
			return nil, fmt.Errorf("taint %q has no effect", one)
		}
		key, value, _ := strings.Cut(about, "=")
		all = append(all, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return all, nil
}
