package owners

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// highest is how many controllers above a pod are looked at: operators stack two or three.
const highest = 8

// fewObjects is up to how many objects of a kind are read one by one; more are listed.
const fewObjects = 10

// page is the page size of lists.
const page = 500

// Chain is which controllers lead to an object, as far as they could be read.
type Chain struct {
	to *Object
	// above is the controller of each that was read; nil when it has none.
	above map[types.UID]*metav1.OwnerReference
	// Unread says of which controllers it is not known what controls them, and why.
	Unread []string
}

// Climb reads what controls the owners, what controls these, and so on up to the object. known are the controllers that need
// not be read, by the UID of what they control.
func (r *Reader) Climb(
	ctx context.Context, namespace string, owners []metav1.OwnerReference, known map[types.UID]*metav1.OwnerReference, to *Object,
) *Chain {
	c := &Chain{to: to, above: known}
	for range highest {
		next := c.unknown(owners)
		if len(next) == 0 {
			break
		}
		for _, of := range byKind(next) {
			r.read(ctx, c, namespace, of)
		}
		owners = nil
		for i := range next {
			if controller := c.above[next[i].UID]; controller != nil {
				owners = append(owners, *controller)
			}
		}
	}
	return c
}

// Leads reports whether an owner reference leads to the object.
func (c *Chain) Leads(ref metav1.OwnerReference) bool {
	for at, n := &ref, 0; at != nil && n <= highest; at, n = c.above[at.UID], n+1 {
		if c.to.is(at) {
			return true
		}
	}
	return false
}

// unknown returns the owners above which nothing is known yet, each once; above the object nothing matters.
func (c *Chain) unknown(owners []metav1.OwnerReference) (unknown []metav1.OwnerReference) {
	met := map[types.UID]bool{}
	for i := range owners {
		ref := &owners[i]
		if _, read := c.above[ref.UID]; !read && !met[ref.UID] && !c.to.is(ref) {
			met[ref.UID] = true
			unknown = append(unknown, *ref)
		}
	}
	return unknown
}

// byKind returns references of one kind together.
func byKind(refs []metav1.OwnerReference) (kinds [][]metav1.OwnerReference) {
	for _, ref := range refs {
		i := slices.IndexFunc(kinds, func(of []metav1.OwnerReference) bool {
			return of[0].Kind == ref.Kind && of[0].APIVersion == ref.APIVersion
		})
		if i < 0 {
			i, kinds = len(kinds), append(kinds, nil)
		}
		kinds[i] = append(kinds[i], ref)
	}
	return kinds
}

// read finds the controllers of owners of one kind: of a few one by one, of many by a list, as far as that is allowed.
func (r *Reader) read(ctx context.Context, c *Chain, namespace string, refs []metav1.OwnerReference) {
	at := slices.IndexFunc(r.kinds, func(kind Kind) bool { return kind.Kind == refs[0].Kind && kind.Group == groupOf(&refs[0]) })
	if at < 0 {
		c.giveUp(refs, "the cluster knows no such kind")
		return
	}
	kind := &r.kinds[at]
	if len(refs) > fewObjects {
		controllers, err := r.list(ctx, kind, namespace)
		if err == nil {
			for _, ref := range refs {
				c.above[ref.UID] = controllers[ref.UID]
			}
			return
		}
	}
	for i := range refs {
		object, err := r.of(kind, namespace).Get(ctx, refs[i].Name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err): // no more of them either
			c.giveUp(refs[i:], fmt.Sprintf("you may not get %s", kind.GroupVersion().WithResource(kind.Resource).GroupResource()))
			return
		case err != nil && !apierrors.IsNotFound(err):
			c.giveUp(refs[i:], err.Error())
			return
		case err == nil && object.UID == refs[i].UID:
			c.above[refs[i].UID] = metav1.GetControllerOf(object)
		default: // it is gone, and above it is nothing
			c.above[refs[i].UID] = nil
		}
	}
}

// list returns the controllers of all objects of a kind.
func (r *Reader) list(ctx context.Context, kind *Kind, namespace string) (map[types.UID]*metav1.OwnerReference, error) {
	controllers := map[types.UID]*metav1.OwnerReference{}
	for options := (metav1.ListOptions{Limit: page}); ; {
		list, err := r.of(kind, namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			controllers[list.Items[i].UID] = metav1.GetControllerOf(&list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return controllers, nil
		}
	}
}

// giveUp takes note of what is not known.
func (c *Chain) giveUp(refs []metav1.OwnerReference, why string) {
	const most = 3
	var names []string
	for i := range refs {
		c.above[refs[i].UID] = nil
		names = append(names, refs[i].Name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > most+1 {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	c.Unread = append(c.Unread, fmt.Sprintf("what controls %s %s%s is not known: %s", refs[0].Kind, strings.Join(names, ", "), more, why))
}
