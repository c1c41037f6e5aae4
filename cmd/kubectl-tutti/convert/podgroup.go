package convert

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// maxMinMember is the largest minMember that the API takes.
const maxMinMember = 100_000

// fieldsOfServer are fields of metadata that an API server writes.
var fieldsOfServer = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"}

// lastApplied is what kubectl notes of the object that it was.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// podGroup translates a PodGroup in place.
func (t *translation) podGroup(node *yaml.Node, path string) {
	t.set(value(node, "apiVersion"), v1alpha1.SchemeGroupVersion.String())
	metadata := value(node, "metadata")
	if name := text(metadata, "name"); len(validation.IsValidLabelValue(name)) > 0 {
		t.refuse(join(path, "metadata.name"), "%q cannot be the value of a label, by which pods name their PodGroup", name)
	}
	for _, field := range fieldsOfServer {
		t.drop(metadata, join(path, "metadata"), field, "it is the API server's, and a new object has its own")
	}
	t.drop(value(metadata, "annotations"), join(path, "metadata.annotations"), lastApplied, "it is of the object that this one was")
	t.drop(node, path, "status", "the scheduler writes its own")
	spec := value(node, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		if spec != nil {
			cut(node, "spec")
		}
		spec = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "spec"}, spec)
	}
	t.spec(spec, join(path, "spec"))
}

func (t *translation) spec(spec *yaml.Node, path string) {
	t.minMember(spec, join(path, "minMember"))
	switch queue := text(spec, "queue"); {
	case queue == "" || queue == v1alpha1.DefaultQueue:
	case len(validation.IsDNS1123Subdomain(queue)) > 0:
		t.refuse(join(path, "queue"), "%q is no name of a Queue, which is a DNS name", queue)
	default:
		t.remark(join(path, "queue"), "%q names a Queue of Tutti now: once there is any, the group waits until this one exists and takes its namespace", queue)
	}
	if text(spec, "priorityClassName") != "" {
		t.remark(join(path, "priorityClassName"), "here it lowers the priority of a group, and never raises it above that of its pods: name the class in their templates, too")
	}
	why := map[string]string{"minResources": "the group waits for what its members request, and for no more"}
	for i := 0; i+1 < len(spec.Content); {
		field := spec.Content[i].Value
		if slices.Contains([]string{"minMember", "queue", "priorityClassName"}, field) {
			i += 2
			continue
		}
		text := why[field]
		if text == "" {
			text = "it has no counterpart"
		}
		t.drop(spec, path, field, text)
	}
}

// minMember checks the minimum. One that is left out, or is 0, lets each pod of kube-batch's start alone.
func (t *translation) minMember(spec *yaml.Node, path string) {
	written := value(spec, "minMember")
	if written == nil {
		written = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "0"}
		spec.Content = append([]*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "minMember"}, written}, spec.Content...)
	}
	n, err := strconv.ParseInt(written.Value, 10, 32)
	switch {
	case err != nil || written.Kind != yaml.ScalarNode || written.Tag != "!!int":
		t.refuse(path, "it is %q, and must be a whole number", written.Value)
	case n < 0 || n > maxMinMember:
		t.refuse(path, "it is %d, and must be from 1 to %d", n, maxMinMember)
	case n == 0:
		t.set(written, "1")
		t.remark(path, "it was 0 or left out, and is 1: each pod starts alone, as with kube-batch")
	}
}

// drop takes a field out, and says why.
func (t *translation) drop(node *yaml.Node, path, field, why string) {
	if find(node, field) == nil {
		return
	}
	cut(node, field)
	t.changed = true
	t.remark(join(path, field), "not taken over: %s", why)
}

// queue replaces a Queue by what it becomes. Comments above it stay.
func (t *translation) queue(node *yaml.Node, path string) {
	queue, replaced, err := queueOf(node)
	if err != nil {
		t.refuse(path, "%v", err)
		return
	}
	above := node.Content[0].HeadComment
	*node = *replaced
	node.Content[0].HeadComment = above
	t.changed = true
	for _, remark := range queue.Remarks {
		t.remark(path, "%s", remark)
	}
}

// queueOf returns what a Queue of kube-batch's becomes, also as YAML.
func queueOf(node *yaml.Node) (*Queue, *yaml.Node, error) {
	written, err := yaml.Marshal(node)
	if err != nil {
		return nil, nil, err
	}
	asJSON, err := sigsyaml.YAMLToJSON(written)
	if err != nil {
		return nil, nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(asJSON); err != nil {
		return nil, nil, err
	}
	queue, err := convert(object)
	if err != nil {
		return nil, nil, err
	}
	if written, err = sigsyaml.Marshal(queue); err != nil {
		return nil, nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(written, &document); err != nil {
		return nil, nil, err
	}
	return queue, document.Content[0], nil
}
