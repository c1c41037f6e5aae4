// Package owners finds an object by the kind and the name that a user gives, and which controllers lead to it. It reads with the
// user's own rights, and nothing but what the API server serves and the metadata of objects.
//
// The files, in reading order:
//
//	kinds.go   from a word to a kind, and to the object
//	chain.go   from a pod to the object that its controllers lead to
package owners

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
)

// Kind is a kind of objects that the API server serves.
type Kind struct{ metav1.APIResource }

// String is the kind and its API group, as in a command line.
func (k *Kind) String() string {
	return schema.GroupKind{Group: k.Group, Kind: strings.ToLower(k.Kind)}.String()
}

func (k *Kind) groupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// resource is what paths of the API server name.
func (k *Kind) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Name}
}

// matches reports whether a word names the kind: its kind, plural, singular or a short name, with or without its group.
func (k *Kind) matches(word string) bool {
	name, group, grouped := strings.Cut(word, ".")
	names := append([]string{k.Kind, k.Name, k.SingularName}, k.ShortNames...)
	return name != "" && slices.ContainsFunc(names, func(one string) bool { return strings.EqualFold(one, name) }) &&
		(!grouped || strings.EqualFold(group, k.Group))
}

// Object is what a user asks for.
type Object struct {
	Kind
	Namespace, Name string
	// UID is empty when the object could not be read, and Unread says why.
	UID    types.UID
	Unread error
}

// is reports whether an owner reference names the object. One that could not be read is known by its kind and name.
func (o *Object) is(ref *metav1.OwnerReference) bool {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == o.groupKind() && ref.Name == o.Name &&
		(o.UID == "" || o.UID == ref.UID)
}

// Reader reads the metadata of objects of any kind.
type Reader struct {
	metadata metadata.Interface
	kinds    []Kind
}

// NewReader asks the API server which kinds it serves. What it cannot say of a group is left out, as long as it says anything.
func NewReader(ctx context.Context, access *rest.Config) (*Reader, error) {
	serves, err := discovery.NewDiscoveryClientForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	reads, err := metadata.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	lists, err := serves.ServerPreferredResourcesWithContext(ctx)
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("kinds of the cluster: %w", err)
	}
	r := &Reader{metadata: reads}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"get"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("kinds of the cluster: %w", err)
		}
		for _, resource := range list.APIResources {
			resource.Group, resource.Version = version.Group, version.Version
			r.kinds = append(r.kinds, Kind{resource})
		}
	}
	return r, nil
}

// Find returns the object of a kind and a name. One that does not exist, or may not be read, is also returned where its
// kind is clear, since others may name it.
func (r *Reader) Find(ctx context.Context, namespace, word, name string) (*Object, error) {
	var found, unread, missing []*Object
	for i := range r.kinds {
		kind := &r.kinds[i]
		if !kind.matches(word) {
			continue
		}
		object := &Object{Kind: *kind, Name: name}
		if kind.Namespaced {
			object.Namespace = namespace
		}
		read, err := r.of(kind, namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			object.UID = read.UID
			found = append(found, object)
		case apierrors.IsNotFound(err):
			object.Unread = err
			missing = append(missing, object)
		default:
			object.Unread = err
			unread = append(unread, object)
		}
	}
	for _, objects := range [][]*Object{found, unread, missing} {
		switch {
		case len(objects) == 1:
			return objects[0], nil
		case len(objects) > 1 && len(found) == 0 && len(unread) == 0:
			return nil, fmt.Errorf("there is no %s %q in namespace %s", or(objects, ""), name, namespace)
		case len(objects) > 1:
			return nil, fmt.Errorf("%s/%s may be several objects: say %s", word, name, or(objects, "/"+name))
		}
	}
	return nil, r.noKind(word)
}

// of reads objects of a kind.
func (r *Reader) of(kind *Kind, namespace string) metadata.ResourceInterface {
	all := r.metadata.Resource(kind.resource())
	if kind.Namespaced {
		return all.Namespace(namespace)
	}
	return all
}

// or lists the kinds of objects, each with an ending.
func or(objects []*Object, ending string) string {
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.Kind.String()+ending)
	}
	return strings.Join(kinds, " or ")
}

// noKind says that there is no such kind. It names the kinds of the same name in other groups, else the most similar kind.
func (r *Reader) noKind(word string) error {
	name, _, _ := strings.Cut(strings.ToLower(word), ".")
	var others, kinds []string
	for i := range r.kinds {
		kind := &r.kinds[i]
		kinds = append(kinds, strings.ToLower(kind.Kind))
		if kind.matches(name) {
			others = append(others, kind.String())
		}
	}
	if near := config.Nearest(name, kinds); len(others) == 0 && near != "" {
		others = []string{near}
	}
	if len(others) == 0 {
		return fmt.Errorf("the cluster knows no kind %q", word)
	}
	return fmt.Errorf("the cluster knows no kind %q; did you mean %s?", word, strings.Join(others, " or "))
}
