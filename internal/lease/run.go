package lease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// answerTimeout bounds one request about the Lease, so that one without answer leaves time for another before the Lease ends.
const answerTimeout = (Duration - RequestTimeout) / 2

// Client reads and writes Leases of one namespace. coordinationv1client.LeaseInterface is one.
type Client interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Run takes part in the election until ctx ends, and then gives the Lease up if it may; nothing else of this process may be
// under way by then. It calls elected once, when the Lease is held. It returns ErrLost when the process must end.
func (e *Election) Run(ctx context.Context, client Client, elected func()) error {
	log := klog.FromContext(ctx).WithValues("lease", e.namespace+"/"+Name, "identity", e.identity)
	called := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if request := e.GiveUp(); request != nil {
				if _, err := send(ctx, client, request); err != nil {
					log.Info("The Lease could not be given up: it is left to expire", "reason", err.Error())
				}
			}
			return nil
		case <-timer.C:
		}
		request, wait, err := e.Next()
		if err != nil {
			return err
		}
		if request != nil {
			stored, err := send(ctx, client, request)
			if err := e.Answer(request, stored, err); err != nil {
				log.Info("A request about the Lease has failed", "reason", err.Error())
			}
		}
		timer.Reset(wait)
		if !called && e.Held() {
			log.Info("The Lease is held")
			called = true
			elected()
		}
	}
}

// send carries a request out. It goes on when ctx ends: broken off, it would not be known whether it took effect.
func send(ctx context.Context, client Client, request *Request) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	switch request.Verb {
	case Create:
		return client.Create(ctx, request.Lease, metav1.CreateOptions{})
	case Update:
		return client.Update(ctx, request.Lease, metav1.UpdateOptions{})
	}
	return client.Get(ctx, Name, metav1.GetOptions{})
}
