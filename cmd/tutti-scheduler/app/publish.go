package app

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/lease"
)

// publish writes the certificate of this process to the ConfigMap where clients look for that of the leader, once this process
// is elected, and returns then. It tries again until the context ends: scheduling does not need it. The chart makes the
// ConfigMap, and lets the scheduler alone change it.
func (p *process) publish(ctx context.Context, elected <-chan struct{}) error {
	if p.published == nil {
		return nil
	}
	select {
	case <-elected:
	case <-ctx.Done():
		return nil
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate.Certificate[0]})
	patch, err := json.Marshal(map[string]any{"data": map[string]string{debugapi.CertificateKey: string(text)}})
	if err != nil {
		return fmt.Errorf("certificate of the endpoint: %w", err)
	}
	log := klog.FromContext(ctx)
	delay := &wait.Backoff{Duration: time.Second, Factor: 2, Steps: 9, Cap: 5 * time.Minute}
	attempt := 0
	_ = delay.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) { // only the end of ctx makes it fail
		attempt++
		ctx, cancel := context.WithTimeout(ctx, lease.RequestTimeout)
		defer cancel()
		_, err := p.published.Patch(ctx, debugapi.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && attempt == 4 { // not what is over with the last leader's Lease
			log.Info("The certificate of the endpoint cannot be written to its ConfigMap: kubectl tutti cannot ask this scheduler",
				"configMap", debugapi.ConfigMap, "reason", err.Error())
		}
		return err == nil, nil
	})
	return nil
}
