// Package publish writes to the API server for the agent: the node's topology as an annotation, a Lease as a heartbeat, and
// events. It reads the agent's own node and its own Lease, and nothing else; no pods.
//
// Every method is one or two requests, waits for them, and is called by the agent's goroutine, never while the container
// runtime waits.
package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

const (
	// Expiry is how long a Lease is valid after it was renewed. A scheduler offers no isolated CPUs of a node whose Lease is
	// older.
	Expiry = 40 * time.Second
	// Period is how often it is renewed.
	Period = 10 * time.Second
	// Component is the events' source.
	Component = "tutti-agent"
)

// LeaseName returns the name of a node's Lease.
func LeaseName(node string) string { return isolated.LeasePrefix + node }

// Publisher writes for one node.
type Publisher struct {
	client                    kubernetes.Interface
	node, namespace, instance string
	// uid is the node's, as last read; it owns the Lease.
	uid types.UID
	// lease is the Lease as last written; nil when it must be read first.
	lease *coordination.Lease
	// emitted are the events of this hour, by name.
	emitted   map[string]bool
	dedupHour string
}

// New returns a publisher for the node, with Leases in the namespace, under the name of one instance of the agent.
func New(client kubernetes.Interface, node, namespace, instance string) *Publisher {
	return &Publisher{client: client, node: node, namespace: namespace, instance: instance}
}

// Node is what the agent reads of its node.
type Node struct {
	// Capacity and Allocatable are CPU in thousandths.
	Capacity, Allocatable int64
	// Published is the annotation as it is on the node; empty when there is none.
	Published string
}

// Node reads the node, from the API server's cache.
func (p *Publisher) Node(ctx context.Context) (*Node, error) {
	node, err := p.client.CoreV1().Nodes().Get(ctx, p.node, meta.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", p.node, err)
	}
	p.uid = node.UID
	return &Node{
		Capacity:    node.Status.Capacity.Cpu().MilliValue(),
		Allocatable: node.Status.Allocatable.Cpu().MilliValue(),
		Published:   node.Annotations[isolated.TopologyAnnotation],
	}, nil
}

// Topology writes the annotation if its content changes, with the next generation. It returns the present text.
func (p *Publisher) Topology(ctx context.Context, published string, topology *isolated.Topology) (string, error) {
	text, err := next(published, topology)
	if err != nil || text == published {
		return published, err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{isolated.TopologyAnnotation: text}},
	})
	if err != nil {
		return published, err
	}
	_, err = p.client.CoreV1().Nodes().Patch(ctx, p.node, types.MergePatchType, patch, meta.PatchOptions{FieldManager: Component})
	if err != nil {
		return published, fmt.Errorf("node %s: annotation: %w", p.node, err)
	}
	return text, nil
}

// next returns the text of the topology with the generation that it gets after what was published.
func next(published string, topology *isolated.Topology) (string, error) {
	t := *topology
	if old, err := isolated.ParseTopology(published); err == nil {
		t.Generation = old.Generation
	} else {
		t.Generation = 0
	}
	text, err := t.Text()
	if err != nil || text == published && t.Generation > 0 {
		return text, err
	}
	t.Generation++
	return t.Text()
}

// Renew writes the Lease as renewed at the time, and creates it if missing. The node owns it. After an error the Lease is
// read again the next time.
func (p *Publisher) Renew(ctx context.Context, now time.Time) error {
	written, err := p.write(ctx, now)
	if p.lease = written; err != nil {
		p.lease = nil
		return fmt.Errorf("lease %s/%s: %w", p.namespace, LeaseName(p.node), err)
	}
	return nil
}

func (p *Publisher) write(ctx context.Context, now time.Time) (*coordination.Lease, error) {
	leases, lease := p.client.CoordinationV1().Leases(p.namespace), p.lease
	if lease == nil {
		var err error
		lease, err = leases.Get(ctx, LeaseName(p.node), meta.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease = &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: LeaseName(p.node), Namespace: p.namespace}}
			p.renew(lease, now)
			return leases.Create(ctx, lease, meta.CreateOptions{FieldManager: Component})
		}
		if err != nil {
			return nil, err
		}
	}
	p.renew(lease, now)
	return leases.Update(ctx, lease, meta.UpdateOptions{FieldManager: Component})
}

func (p *Publisher) renew(lease *coordination.Lease, now time.Time) {
	seconds, at := int32(Expiry/time.Second), meta.NewMicroTime(now)
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != p.instance {
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = &p.instance, &at
	}
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &seconds, &at
	if p.uid != "" {
		lease.OwnerReferences = []meta.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.node, UID: p.uid}}
	}
}

// PodEvent is an event about a pod, or about the node where the pod's name is empty.
type PodEvent struct {
	Namespace, Pod string
	UID            string
	// Reason is one word, Message a sentence.
	Reason, Message string
}

// Event writes a note as an event. The same note is not written again within an hour, also after a restart.
func (p *Publisher) Event(ctx context.Context, note *PodEvent, now time.Time) error {
	about := core.ObjectReference{APIVersion: "v1", Kind: "Node", Name: p.node, UID: types.UID(p.node)}
	namespace := meta.NamespaceDefault
	if note.Pod != "" {
		about = core.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: note.Namespace, Name: note.Pod, UID: types.UID(note.UID),
		}
		namespace = note.Namespace
	}
	if hour := now.UTC().Format("2006010215"); hour != p.dedupHour {
		p.dedupHour, p.emitted = hour, map[string]bool{}
	}
	name := eventName(about.Name, note, p.dedupHour)
	if p.emitted[name] {
		return nil
	}
	at := meta.NewTime(now)
	event := &core.Event{
		ObjectMeta:     meta.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: about, Reason: note.Reason, Message: note.Message, Type: core.EventTypeWarning,
		Source:         core.EventSource{Component: Component, Host: p.node},
		FirstTimestamp: at, LastTimestamp: at, Count: 1, ReportingController: Component, ReportingInstance: p.instance,
	}
	_, err := p.client.CoreV1().Events(namespace).Create(ctx, event, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("event about %s: %w", about.Name, err)
	}
	p.emitted[name] = true
	return nil
}

// eventName is the same for the same note within the hour.
func eventName(object string, note *PodEvent, hour string) string {
	sum := sha256.Sum256([]byte(note.UID + "\x00" + note.Reason + "\x00" + note.Message + "\x00" + hour))
	return object[:min(len(object), 200)] + "." + hex.EncodeToString(sum[:8])
}
