package extender

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are one extender, under the names of kube-scheduler's configuration.
type Options struct {
	// URLPrefix is the extender's address; a call goes to the prefix, a slash and the verb.
	URLPrefix string
	// FilterVerb, PrioritizeVerb, PreemptVerb and BindVerb are its verbs; an empty one is not called.
	FilterVerb, PrioritizeVerb, PreemptVerb, BindVerb string
	// Weight multiplies the scores of prioritize.
	Weight int64
	TLS    TLS
	// Timeout bounds one call, the answer included; zero is 5 s. ReadArguments refuses more than 30 s.
	Timeout time.Duration
	// MaxResponseBytes bounds one answer; zero is 32 MiB.
	MaxResponseBytes int64
	// NodeCacheCapable: the extender caches the nodes, names are enough.
	NodeCacheCapable bool
	// ManagedResources limits calls to pods with these resources; none is all pods.
	ManagedResources []ManagedResource
	// Ignorable: its errors do not delay pods.
	Ignorable bool
	// DistinguishBy names labels and annotations by which it distinguishes pods with equal requests.
	DistinguishBy []string
}

// ManagedResource is an extended resource that an extender manages.
type ManagedResource struct {
	Name corev1.ResourceName
	// IgnoredByScheduler: the extender alone counts it.
	IgnoredByScheduler bool
}

// TLS is what secures the connection, by the names of files.
type TLS struct {
	// Insecure: the server's certificate is not verified.
	Insecure bool
	// ServerName is the name in the server's certificate; empty is the host of the URL.
	ServerName string
	// CertFile and KeyFile are the client certificate, CAFile the authorities of the server's; empty is none, and the
	// system's authorities.
	CertFile, KeyFile, CAFile string
}

// ReadArguments reads the extenders in their order. The reader reports errors.
func ReadArguments[R Reader[R]](arguments R) []Options {
	Arguments().Read(arguments)
	var all []Options
	for _, item := range arguments.Items("extenders") {
		one := readOne(item)
		for _, other := range all {
			if name(one.URLPrefix) == name(other.URLPrefix) {
				item.Refuse("urlPrefix", "be another one for each extender, since refusals and binds name it")
			}
			if one.BindVerb != "" && other.BindVerb != "" {
				item.Refuse("bindVerb", "be given to one extender only")
			}
			for _, managed := range one.ManagedResources {
				if other.manages(managed.Name) {
					item.Refuse("managedResources", fmt.Sprintf("not name %s, which another extender manages", managed.Name))
				}
			}
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		arguments.Refuse("extenders", "name at least one extender")
	}
	return all
}

func readOne[R Reader[R]](item R) Options {
	given := fields().Read(item)
	o := Options{
		URLPrefix:        given.Text("urlPrefix"),
		FilterVerb:       given.Text("filterVerb"),
		PrioritizeVerb:   given.Text("prioritizeVerb"),
		PreemptVerb:      given.Text("preemptVerb"),
		BindVerb:         given.Text("bindVerb"),
		Weight:           given.Int("weight"),
		Timeout:          given.Duration("httpTimeout"),
		MaxResponseBytes: readBytes(item, given.Text("maxResponseBytes")),
		NodeCacheCapable: given.Bool("nodeCacheCapable"),
		Ignorable:        given.Bool("ignorable"),
		DistinguishBy:    given.Texts("distinguishBy"),
		ManagedResources: readManaged(item),
	}
	slices.Sort(o.DistinguishBy)
	secure := given.Bool("enableHTTPS")
	readTLS(item, secure, &o)
	if o.Timeout > maxTimeout {
		item.Refuse("httpTimeout", "not be longer than "+maxTimeout.String()+", since all jobs wait for an answer")
	}
	parsed, err := url.Parse(o.URLPrefix)
	switch {
	case parsed != nil && parsed.User != nil, parsed == nil && strings.Contains(o.URLPrefix, "@"):
		item.RefuseSecret("urlPrefix", "hold no user and password: a configuration is no place for credentials; "+
			"name a certFile and a keyFile in tlsConfig")
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		item.Refuse("urlPrefix", "be a URL that begins with http:// or https://")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		item.Refuse("urlPrefix", "end in a path, since the verb is put behind it")
	case secure && parsed.Scheme != "https":
		item.Refuse("enableHTTPS", "go with a urlPrefix that begins with https://")
	}
	if o.PrioritizeVerb != "" && o.Weight == 0 {
		item.Require("weight")
		item.Refuse("weight", "be at least 1 when there is a prioritizeVerb")
	}
	if o.FilterVerb == "" && o.PrioritizeVerb == "" && o.PreemptVerb == "" && o.BindVerb == "" {
		item.Refuse("urlPrefix", "come with a filterVerb, a prioritizeVerb, a preemptVerb or a bindVerb")
	}
	return o
}

func readBytes[R Reader[R]](item R, text string) int64 {
	if text == "" {
		return defaultResponse
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Value() < 1 || quantity.Value() > 1<<40 {
		item.Refuse("maxResponseBytes", "be a number of bytes such as 32Mi, at least 1")
		return defaultResponse
	}
	return quantity.Value()
}

func readManaged[R Reader[R]](item R) []ManagedResource {
	var all []ManagedResource
	for _, entry := range item.Items("managedResources") {
		given := resourceFields().Read(entry)
		managed := ManagedResource{
			Name: corev1.ResourceName(given.Text("name")), IgnoredByScheduler: given.Bool("ignoredByScheduler"),
		}
		switch {
		case !extended(managed.Name):
			entry.Refuse("name", "be an extended resource, such as example.com/device")
		case slices.ContainsFunc(all, func(m ManagedResource) bool { return m.Name == managed.Name }):
			entry.Refuse("name", "be another one each time")
		}
		all = append(all, managed)
	}
	return all
}

// extended reports whether a resource is an extended resource, not one of Kubernetes' own.
func extended(resource corev1.ResourceName) bool {
	text := string(resource)
	return len(validation.IsQualifiedName(text)) == 0 && strings.Contains(text, "/") &&
		!strings.Contains(text, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix)
}

// readTLS reads the TLS settings; secure is the value of enableHTTPS.
func readTLS[R Reader[R]](item R, secure bool, o *Options) {
	section, _ := item.Section("tlsConfig")
	given := tlsFields().Read(section)
	o.TLS = TLS{
		Insecure: given.Bool("insecure"), ServerName: given.Text("serverName"),
		CertFile: given.Text("certFile"), KeyFile: given.Text("keyFile"), CAFile: given.Text("caFile"),
	}
	for _, data := range []string{"certData", "keyData", "caData"} {
		section.RefuseSecret(data, "be left out: a configuration is no place for keys; name a file")
	}
	switch {
	case secure && o.TLS.CAFile == "" && !o.TLS.Insecure:
		item.Refuse("enableHTTPS", "go with a caFile in tlsConfig, or with insecure: true, which is what it means without one")
	case o.TLS.CAFile != "" && o.TLS.Insecure:
		section.Refuse("insecure", "be false when there is a caFile")
	case (o.TLS.CertFile == "") != (o.TLS.KeyFile == ""):
		section.Refuse("certFile", "go with a keyFile")
		section.Refuse("keyFile", "go with a certFile")
	}
}

func (o *Options) manages(resource corev1.ResourceName) bool {
	return slices.ContainsFunc(o.ManagedResources, func(m ManagedResource) bool { return m.Name == resource })
}

// name is the extender's name in messages and decisions: its URL prefix.
func name(prefix string) string {
	parsed, err := url.Parse(prefix)
	if err != nil {
		return "with an unreadable URL"
	}
	return strings.TrimRight(parsed.String(), "/")
}
