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
	for failures := 0; ; failures++ {
		patching, cancel := context.WithTimeout(ctx, lease.RequestTimeout)
		_, err := p.published.Patch(patching, debugapi.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
		cancel()
		if err == nil {
			return nil
		}
		if failures == 3 { // not what is over with the last leader's Lease
			log.Info("The certificate of the endpoint cannot be written to its ConfigMap: kubectl tutti cannot ask this scheduler",
				"configMap", debugapi.ConfigMap, "reason", err.Error())
		}
		timer := time.NewTimer(delay.Step())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}
