// Package owners finds an object by the kind and the name that a user gives, and which controllers lead to it. It reads with the
// user's own rights, and nothing but what the API server serves and the metadata of objects.
//
// The files, in reading order:
//
//	kinds.go   from a word to a kind, and to the object
//	chain.go   from a pod to the object that its controllers lead to
//	nearest.go the name most like a misspelt one
package owners

import (
	"context"
	"errors"
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
)

// Kind is a kind of objects that the API server serves.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural, as in a path.
	Resource   string
	Namespaced bool
	// names are its kind, plural, singular and short names, in lower case.
	names []string
}

// String is the kind and its API group, as in a command line.
func (k *Kind) String() string {
	if k.Group == "" {
		return strings.ToLower(k.Kind)
	}
	return strings.ToLower(k.Kind) + "." + k.Group
}

// matches reports whether a word names the kind: a name of it, with or without its group.
func (k *Kind) matches(word string) bool {
	name, group, grouped := strings.Cut(strings.ToLower(word), ".")
	return slices.Contains(k.names, name) && (!grouped || group == k.Group)
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
	return ref.Kind == o.Kind.Kind && groupOf(ref) == o.Group && ref.Name == o.Name && (o.UID == "" || o.UID == ref.UID)
}

func groupOf(ref *metav1.OwnerReference) string {
	group, _, versioned := strings.Cut(ref.APIVersion, "/")
	if !versioned {
		return ""
	}
	return group
}

// Reader reads the metadata of objects of any kind.
type Reader struct {
	metadata metadata.Interface
	kinds    []Kind
}

// NewReader asks the API server which kinds it serves. What it cannot say of a group is left out, as long as it says anything.
func NewReader(ctx context.Context, config *rest.Config) (*Reader, error) {
	serves, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	reads, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	lists, err := serves.ServerPreferredResourcesWithContext(ctx)
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("kinds of the cluster: %w", err)
	}
	r := &Reader{metadata: reads}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("kinds of the cluster: %w", err)
		}
		for i := range list.APIResources {
			if resource := &list.APIResources[i]; slices.Contains(resource.Verbs, "get") && !strings.Contains(resource.Name, "/") {
				r.kinds = append(r.kinds, newKind(version, resource))
			}
		}
	}
	return r, nil
}

func newKind(version schema.GroupVersion, resource *metav1.APIResource) Kind {
	names := append([]string{resource.Kind, resource.Name, resource.SingularName}, resource.ShortNames...)
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	return Kind{
		GroupVersionKind: version.WithKind(resource.Kind), Resource: resource.Name, Namespaced: resource.Namespaced,
		names: slices.DeleteFunc(names, func(name string) bool { return name == "" }),
	}
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
	all := r.metadata.Resource(kind.GroupVersion().WithResource(kind.Resource))
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

// noKind says that there is no such kind, and gives the most similar one.
func (r *Reader) noKind(word string) error {
	text := fmt.Sprintf("the cluster knows no kind %q", word)
	name, _, _ := strings.Cut(strings.ToLower(word), ".")
	var kinds []string
	for i := range r.kinds {
		if slices.Contains(r.kinds[i].names, name) { // of another group
			kinds = append(kinds, r.kinds[i].String())
		}
	}
	if len(kinds) > 0 {
		return errors.New(text + "; did you mean " + strings.Join(kinds, " or ") + "?")
	}
	for i := range r.kinds {
		kinds = append(kinds, strings.ToLower(r.kinds[i].Kind))
	}
	if near := Nearest(name, kinds); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return errors.New(text)
}
