package command

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

// The files of --tls-cert-dir, named as in a Secret of type kubernetes.io/tls.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// checkCertificates returns an error when the files are not there or do not belong together, for which the server would make a
// certificate of its own instead.
func (o *options) checkCertificates() error {
	if o.certificates == "" {
		return nil
	}
	_, err := tls.LoadX509KeyPair(filepath.Join(o.certificates, certificateFile), filepath.Join(o.certificates, keyFile))
	if err != nil {
		return fmt.Errorf("--tls-cert-dir %s: %w", o.certificates, err)
	}
	if o.metricsAddress == "0" {
		return errors.New("--tls-cert-dir is of no use with --metrics-bind-address 0")
	}
	return nil
}

// endpoint says how metrics and the scheduler's own state are served: by HTTPS, to requests with a token that the API server
// knows (else 401) of a user that may get the path (else 403).
func (o *options) endpoint(source debugapi.Source) server.Options {
	return server.Options{
		BindAddress:    o.metricsAddress,
		SecureServing:  true,
		FilterProvider: newAuthHandler,
		ExtraHandlers:  source.Handlers(),
		CertDir:        o.certificates,
		CertName:       certificateFile,
		KeyName:        keyFile,
		TLSOpts: []func(*tls.Config){func(settings *tls.Config) {
			settings.MinVersion = tls.VersionTLS13
			settings.NextProtos = []string{"http/1.1"} // no client needs many streams here, and they have been used to keep servers busy
			if o.certificates == "" {
				made := sync.OnceValues(selfSigned)
				settings.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return made() }
			}
		}},
	}
}

// selfSigned makes a certificate for an endpoint without --tls-cert-dir. controller-runtime would make two RSA keys instead:
// that takes a processor for a fifth of a second, while the first lists are read.
func selfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the endpoint: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "localhost"},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    now.Add(-time.Hour), // a client's clock may be behind
		NotAfter:     now.AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the endpoint: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, nil
}

// configView is what is shown of the configuration.
func configView(report configuration.Report) *debugapi.Config {
	shown := &debugapi.Config{
		Source: report.Active.Source, Revision: revision(report.Active), Since: report.Since, Text: report.Active.Text,
	}
	if refused := report.Refused; refused != nil {
		shown.Refused = &debugapi.RefusedConfig{
			Revision: revision(refused.Version), At: refused.At, Error: strings.Join(refused.Problems, "\n"),
		}
	}
	return shown
}

// revision returns the hash of a version, and the number that the API server has given it.
func revision(version configuration.Version) string {
	if version.ResourceVersion == "" {
		return version.Hash
	}
	return version.Hash + " (resourceVersion " + version.ResourceVersion + ")"
}

// documents is where what the endpoint shows comes from.
func (p *process) documents() debugapi.Source {
	return debugapi.Source{
		Nodes:  debugapi.NewNodeInspector(p.loop, clock.RealClock{}).Nodes,
		Cycles: p.loop.Cycles,
		Config: func() *debugapi.Config { return configView(p.live.Report()) },
		Refusals: func(ctx context.Context, namespace, name string) (*debugapi.Refusals, error) {
			return debugapi.ReadRefusals(ctx, p.loop, namespace, name)
		},
	}
}
