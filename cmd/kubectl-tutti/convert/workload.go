package convert

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// The names of kube-batch's and of ours in workloads.
const (
	schedulerKubeBatch = "kube-batch"
	scheduler          = "tutti"
	// annotationMinMember makes a group without an object, of the pods of one controller.
	annotationMinMember = "scheduling.k8s.io/group-min-member"
)

// walk translates what is of kube-batch below a node. Where pods are described differs from kind to kind, and what describes them
// does not: a schedulerName, and annotations beside labels. What an alias stands for is translated where it is written.
func (t *translation) walk(node *yaml.Node, path string) {
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			t.walk(item, fmt.Sprintf("%s[%d]", path, i))
		}
	case yaml.MappingNode:
		apiVersion, kind := text(node, "apiVersion"), text(node, "kind")
		if apiVersion == "" || kind == "" {
			t.mapping(node, path)
			return
		}
		before := t.object
		t.object = objectName(kind, node)
		t.translateObject(node, path, apiVersion, kind)
		t.object = before
	case yaml.ScalarNode:
		for _, name := range []string{schedulerKubeBatch, groupKubeBatch, groupSIGs} {
			if strings.Contains(node.Value, name) {
				t.remark(path, "it names %s, and is left as it is", name)
				return
			}
		}
	}
}

// objectName is kind, namespace and name.
func objectName(kind string, object *yaml.Node) string {
	metadata := value(object, "metadata")
	name := text(metadata, "name")
	if name == "" {
		name = text(metadata, "generateName")
	}
	if namespace := text(metadata, "namespace"); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}

func (t *translation) translateObject(node *yaml.Node, path, apiVersion, kind string) {
	group, _, _ := strings.Cut(apiVersion, "/")
	switch {
	case kind == "ConfigMap" || kind == "Secret": // its keys are names of files
		if data := value(node, "data"); data != nil {
			for i := 1; i < len(data.Content); i += 2 {
				t.walk(data.Content[i], join(join(path, "data"), data.Content[i-1].Value))
			}
		}
	case group != groupKubeBatch && group != groupSIGs:
		if metadata := value(node, "metadata"); kind != "Pod" && value(value(metadata, "annotations"), v1alpha1.AnnotationKubeBatchGroup) != nil {
			t.remark(join(join(path, "metadata.annotations"), v1alpha1.AnnotationKubeBatchGroup),
				"left as it is: it is on the %s and not on its pods, which alone are members", kind)
			t.fields(node, path, "metadata")
			return
		}
		t.mapping(node, path)
	case kind == "PodGroup":
		t.podGroup(node, path)
	case kind == "Queue":
		t.queue(node, path)
	case strings.HasSuffix(kind, "List"):
		t.set(value(node, "apiVersion"), "v1")
		t.set(value(node, "kind"), "List")
		t.walk(value(node, "items"), join(path, "items"))
	default:
		t.remark(join(path, "apiVersion"), "%s has no %s; it is left as it is", apiVersion, kind)
	}
}

// mapping translates what a mapping says of pods, and all below.
func (t *translation) mapping(node *yaml.Node, path string) {
	if spec := value(node, "spec"); spec != nil && value(value(value(node, "metadata"), "annotations"), v1alpha1.AnnotationKubeBatchGroup) != nil {
		switch name := text(spec, "schedulerName"); name {
		case schedulerKubeBatch, scheduler:
		case "":
			t.remark(join(path, "spec.schedulerName"), "there is none, so that the default scheduler takes these pods; Tutti takes those of %q", scheduler)
		default:
			t.remark(join(path, "spec.schedulerName"), "it is %q, and left as it is; Tutti takes pods of %q", name, scheduler)
		}
	}
	t.membership(node, path)
	t.fields(node, path)
}

// fields translates all below a mapping but what is left out.
func (t *translation) fields(node *yaml.Node, path string, without ...string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		switch at := join(path, key.Value); {
		case slices.Contains(without, key.Value):
		case key.Value == "schedulerName" && content.Kind == yaml.ScalarNode && content.Value == schedulerKubeBatch:
			t.set(content, scheduler)
		case key.Value == v1alpha1.AnnotationKubeBatchGroup:
			t.remark(at, "left as it is; as an annotation of pods it means here what it means there")
		default:
			t.walk(content, at)
		}
	}
}

// membership makes the label of the annotation that names a group. It keeps its comments. Where others share the annotations or
// the labels, such as the selector of a Deployment, it is left to fields to say that the annotation stays.
func (t *translation) membership(node *yaml.Node, path string) {
	annotations, labels := find(node, "annotations"), find(node, "labels")
	named := value(annotations, v1alpha1.AnnotationKubeBatchGroup)
	at := join(join(path, "annotations"), v1alpha1.AnnotationKubeBatchGroup)
	t.implicit(annotations, named != nil, join(path, "annotations"))
	switch {
	case named == nil || isShared(annotations) || isShared(labels):
		return
	case named.Kind != yaml.ScalarNode || named.Value == "":
		t.refuse(at, "it must be the name of a PodGroup")
		return
	case len(validation.IsValidLabelValue(named.Value)) > 0:
		t.refuse(at, "%q cannot be the value of a label, by which pods name their PodGroup", named.Value)
		return
	}
	t.changed = true
	switch present := text(labels, v1alpha1.LabelPodGroup); {
	case present == named.Value:
		cut(annotations, v1alpha1.AnnotationKubeBatchGroup)
	case present != "":
		cut(annotations, v1alpha1.AnnotationKubeBatchGroup)
		t.remark(at, "%q is lost: the label %s is there, and names %q", named.Value, v1alpha1.LabelPodGroup, present)
	case labels == nil && len(annotations.Content) == 2: // nothing else is annotated
		keyOf(node, "annotations").Value = "labels"
		annotations.Content[0].Value = v1alpha1.LabelPodGroup
		return
	default:
		key, name := cut(annotations, v1alpha1.AnnotationKubeBatchGroup)
		key.Value = v1alpha1.LabelPodGroup
		addLabel(node, labels, key, name)
	}
	if len(annotations.Content) == 0 {
		cut(node, "annotations")
	}
}

// isShared reports whether a node stands in several places.
func isShared(node *yaml.Node) bool {
	return node != nil && (node.Kind == yaml.AliasNode || node.Anchor != "")
}

// implicit remarks on the minimum of a group without an object.
func (t *translation) implicit(annotations *yaml.Node, named bool, path string) {
	minMember := value(annotations, annotationMinMember)
	switch at := join(path, annotationMinMember); {
	case minMember == nil:
	case named:
		t.remark(at, "left as it is: kube-batch did not read it beside %s", v1alpha1.AnnotationKubeBatchGroup)
	default:
		t.remark(at, "left as it is, without effect: for a group without a PodGroup give the pods a label %s, and the annotation %s: %q",
			v1alpha1.LabelPodGroup, v1alpha1.AnnotationMinMember, minMember.Value)
	}
}

// addLabel puts a label among others, or above the annotations.
func addLabel(node, labels, key, name *yaml.Node) {
	if labels == nil {
		labels = &yaml.Node{}
		at := slices.Index(node.Content, keyOf(node, "annotations"))
		node.Content = slices.Insert(node.Content, at, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "labels"}, labels)
	}
	if labels.Kind != yaml.MappingNode { // null
		*labels = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: node.Style}
	}
	labels.Content = append(labels.Content, key, name)
}

// set changes a value.
func (t *translation) set(node *yaml.Node, value string) {
	if node.Value != value {
		node.Value, t.changed = value, true
	}
}

// join is the path of a field; one whose name has a slash is written in brackets.
func join(path, field string) string {
	switch {
	case strings.Contains(field, "/"):
		return fmt.Sprintf("%s[%s]", path, field)
	case path == "":
		return field
	}
	return path + "." + field
}

// find returns the value of a key as it is written, nil when there is none.
func find(node *yaml.Node, key string) *yaml.Node {
	if at := index(node, key); at >= 0 {
		return node.Content[at+1]
	}
	return nil
}

func keyOf(node *yaml.Node, key string) *yaml.Node { return node.Content[index(node, key)] }

// index is where a key is in a mapping; -1 when it is not.
func index(node *yaml.Node, key string) int {
	if node == nil || node.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// value is what find returns, and what an alias stands for.
func value(node *yaml.Node, key string) *yaml.Node {
	found := find(node, key)
	if found != nil && found.Kind == yaml.AliasNode {
		return found.Alias
	}
	return found
}

// text is the value of a key, empty when there is none or it is no scalar.
func text(node *yaml.Node, key string) string {
	if found := value(node, key); found != nil && found.Kind == yaml.ScalarNode && found.Tag != "!!null" {
		return found.Value
	}
	return ""
}

// cut takes a key that is there out of a mapping, and returns it with its value.
func cut(node *yaml.Node, key string) (taken, value *yaml.Node) {
	at := index(node, key)
	taken, value = node.Content[at], node.Content[at+1]
	node.Content = slices.Delete(node.Content, at, at+2)
	return taken, value
}
