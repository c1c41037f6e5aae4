package app

import (
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
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/version"
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
//
// It shows the certificate of --tls-cert-dir. To a client that asks for debugapi.ServerName, and without that folder to all, it
// shows own.
func (o *options) endpoint(source debugapi.Source, own *tls.Certificate) server.Options {
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
			inspected := settings.Clone()
			inspected.Certificates = []tls.Certificate{*own}
			if o.certificates == "" { // else the server would make another one, of two RSA keys, while the first lists are read
				settings.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own, nil }
				return
			}
			settings.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if hello.ServerName == debugapi.ServerName {
					return inspected, nil
				}
				return nil, nil // the settings themselves, to which the server adds the folder
			}
		}},
	}
}

// certify makes the certificate of this process, and says where it is made known: where there is an endpoint, in the scheduler's
// namespace. A scheduler that runs beside a cluster without an election has none.
func (o *options) certify(p *process, config *rest.Config) (err error) {
	if p.certificate, err = selfSigned(); err != nil {
		return err
	}
	namespace, err := o.namespace()
	if err != nil && o.leaderElect {
		return err
	}
	if namespace == "" || o.metricsAddress == "0" {
		return nil
	}
	client, err := kubernetes.NewForConfig(commit.Fenced(config, p.election.mayWrite))
	if err != nil {
		return fmt.Errorf("client for the certificate of the endpoint: %w", err)
	}
	p.published = client.CoreV1().ConfigMaps(namespace)
	return nil
}

// selfSigned makes this process's own certificate. Clients learn it from the ConfigMap to which the leader writes it
// (publish.go).
func selfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the endpoint: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: debugapi.ServerName},
		DNSNames:     []string{debugapi.ServerName, "localhost"},
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
func configView(report configuration.Report, leading bool) *debugapi.ConfigList {
	shown := debugapi.Config{
		Version: version.Version(),
		Paused:  report.Paused, Source: report.Active.Source, Revision: revision(report.Active), Since: report.Since, Text: report.Active.Text,
	}
	if refused := report.Refused; refused != nil {
		shown.Refused = &debugapi.RefusedConfig{
			Revision: revision(refused.Version), At: refused.At, Error: strings.Join(refused.Problems, "\n"),
		}
	}
	return debugapi.NewConfigList(shown, leading)
}

// revision returns the hash of a version, and the number that the API server has given it.
func revision(of configuration.Version) string {
	if of.ResourceVersion == "" {
		return of.Hash
	}
	return of.Hash + " (resourceVersion " + of.ResourceVersion + ")"
}

// documents is where what the endpoint shows comes from.
func (p *process) documents() debugapi.Source {
	source := debugapi.NewSource(p.loop.Inspect, clock.RealClock{})
	source.Cycles = p.loop.Cycles
	source.Ask = p.desk.Ask
	source.Config = func() *debugapi.ConfigList { return configView(p.live.Report(), p.loop.Leading()) }
	return source
}
