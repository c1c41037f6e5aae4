package owners

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

// highest is how many controllers above a pod are looked at: operators stack two or three.
const highest = 8

// fewObjects is up to how many objects of a kind are read one by one; then all of the namespace are listed.
const fewObjects = 10

// Chain finds whether controllers lead to an object. It reads a controller when it is asked about what that controls.
type Chain struct {
	reader    *Reader
	namespace string
	to        *Object
	// above is the controller of each that is known; nil when it has none.
	above map[types.UID]*metav1.OwnerReference
	kinds map[schema.GroupKind]*readKind
}

// readKind is what was read of a kind.
type readKind struct {
	reads int
	// refused is why no more of it are read; empty where they are. unread are the names of those that are not known for it.
	refused string
	unread  []string
}

// To returns the chain to an object. known are the controllers that need not be read, by the UID of what they control.
func (r *Reader) To(object *Object, namespace string, known map[types.UID]*metav1.OwnerReference) *Chain {
	return &Chain{reader: r, namespace: namespace, to: object, above: known, kinds: map[schema.GroupKind]*readKind{}}
}

// Leads reports whether an owner reference leads to the object, as far as what is between may be read.
func (c *Chain) Leads(ctx context.Context, ref *metav1.OwnerReference) bool {
	for n := 0; ref != nil && n <= highest; n++ {
		if c.to.is(ref) {
			return true
		}
		ref = c.controller(ctx, ref)
	}
	return false
}

// Unread says of which controllers it is not known what controls them, and why.
func (c *Chain) Unread() (texts []string) {
	for kind, of := range c.kinds {
		if len(of.unread) > 0 {
			texts = append(texts, fmt.Sprintf("what controls %s %s is not known: %s", kind.Kind, printer.Few(of.unread), of.refused))
		}
	}
	slices.Sort(texts)
	return texts
}

// controller returns what controls an owner; nil where nothing does, and where that is not known.
func (c *Chain) controller(ctx context.Context, ref *metav1.OwnerReference) *metav1.OwnerReference {
	if above, known := c.above[ref.UID]; known {
		return above
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	of := c.kinds[kind]
	if of == nil {
		of = &readKind{}
		c.kinds[kind] = of
	}
	c.above[ref.UID] = nil
	if of.refused == "" {
		of.refused = c.read(ctx, of, kind, ref)
	}
	if of.refused != "" {
		of.unread = append(of.unread, ref.Name)
	}
	return c.above[ref.UID]
}

// read finds the controller of an owner, or of all of its kind; it says why it cannot.
func (c *Chain) read(ctx context.Context, of *readKind, kind schema.GroupKind, ref *metav1.OwnerReference) (refused string) {
	at := slices.IndexFunc(c.reader.kinds, func(served Kind) bool { return served.groupKind() == kind })
	if at < 0 {
		return "the cluster knows no such kind"
	}
	objects := c.reader.of(&c.reader.kinds[at], c.namespace)
	if of.reads++; of.reads == fewObjects+1 {
		list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		}
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			about := object.(*metav1.PartialObjectMetadata)
			c.above[about.UID] = metav1.GetControllerOf(about)
			return nil
		})
		if err == nil {
			return "" // one that is not in the list is gone, and above it is nothing
		}
	}
	object, err := objects.Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you may not get %s", c.reader.kinds[at].resource().GroupResource())
	case err != nil && !apierrors.IsNotFound(err):
		return err.Error()
	case err == nil && object.UID == ref.UID: // else it is gone
		c.above[ref.UID] = metav1.GetControllerOf(object)
	}
	return ""
}
