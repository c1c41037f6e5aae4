package commit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// This file is how statuses of groups and queues are written: as JSON patches that name the UID of the object.

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// request replaces the status of a group; see withStatus.
func (w *GroupStatus) request(c *Client) (*rest.Request, error) {
	patch := c.groups.Patch(types.JSONPatchType).Namespace(w.Namespace).Resource("podgroups").Name(w.Name)
	return withStatus(patch, w.UID, w.Status)
}

// request replaces the status of a queue; see withStatus.
func (w *QueueStatus) request(c *Client) (*rest.Request, error) {
	return withStatus(c.groups.Patch(types.JSONPatchType).Resource("queues").Name(w.Name), w.UID, w.Status)
}

// withStatus replaces the whole status, so that a field that is empty now loses its old value, unlike with a merge patch;
// and without a resource version, so that a change of the spec causes no conflict.
func withStatus(patch *rest.Request, uid types.UID, status any) (*rest.Request, error) {
	return withJSON(patch.SubResource("status"), []operation{
		{Op: "test", Path: "/metadata/uid", Value: uid},
		{Op: "add", Path: "/status", Value: status},
	})
}

// request changes nothing but what is the scheduler's, in the object itself where its kind has no status subresource, and
// without a resource version, so that no other change of the object is a conflict. Conditions of others keep their places in the
// list; where one was added or has gone meanwhile, or another writer has turned ours, the tests refuse the patch.
func (w *ForeignStatus) request(c *Client) (*rest.Request, error) {
	patch := []operation{{"test", "/metadata/uid", w.UID}}
	if !w.HasStatus {
		patch = append(patch, operation{"test", "/status", nil}, operation{"add", "/status", struct{}{}})
	}
	if w.Phase != "" {
		patch = append(patch, operation{"add", "/status/phase", w.Phase})
	}
	if n := w.Counts; n != nil {
		patch = append(patch, operation{"add", "/status/running", n.Running},
			operation{"add", "/status/succeeded", n.Succeeded}, operation{"add", "/status/failed", n.Failed})
	}
	if w.Condition != nil {
		patch = append(patch, w.Condition.patch(w.HasConditions)...)
	}
	resource := w.Resource
	path := []string{"/apis", resource.Group, resource.Version, "namespaces", w.Group.Namespace, resource.Resource, w.Group.Name}
	if w.Subresource {
		path = append(path, "status")
	}
	return withJSON(c.groups.Patch(types.JSONPatchType).AbsPath(path...), patch)
}

// patch returns what puts the condition into the list; listed reports that there is one.
func (c *ForeignCondition) patch(listed bool) []operation {
	at := fmt.Sprintf("/status/conditions/%d", c.At)
	same := []operation{{"test", at + "/type", c.Replaces}}
	if c.Was != "" {
		same = append(same, operation{"test", at + "/status", c.Was})
	}
	switch {
	case !listed:
		return []operation{{"test", "/status/conditions", nil}, {"add", "/status/conditions", []*ForeignCondition{c}}}
	case c.Replaces == "":
		return []operation{{"add", "/status/conditions/-", c}}
	case c.LastTransitionTime.IsZero():
		return append(same, operation{"add", at + "/reason", c.Reason}, operation{"add", at + "/message", c.Message})
	}
	return append(same, operation{"replace", at, c})
}
