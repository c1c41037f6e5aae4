package extender

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/argument"
)

const (
	defaultTimeout  = 5 * time.Second
	defaultResponse = 32 << 20
	// mostWeight keeps sums of scores far from where an int64 ends; see mostScore.
	mostWeight = 1_000_000
)

// Arguments are all that a configuration may say to the plugin: a list of extenders, each under kube-scheduler's names.
func Arguments() argument.List {
	return argument.List{
		argument.Mappings("extenders", fields()...).Needed().Says("the extenders, in the order in which they are asked"),
	}
}

// fields are what may be said of one extender.
func fields() argument.List {
	return argument.List{
		argument.Text("urlPrefix", "").Needed().Shaped("a URL").Says("where the extender is; a call goes to the prefix, a slash and " +
			"the verb. Credentials in it are sent, never shown"),
		argument.Text("filterVerb", "").Says("which nodes will do; not asked without a verb, as with the others"),
		argument.Text("preemptVerb", "").Says("who may be evicted where, and who instead; see below"),
		argument.Text("prioritizeVerb", "").Says("which nodes are best, from 0 to 10; needs a `weight` of 1 or more"),
		argument.Text("bindVerb", "").Says("binds pods in place of the API server; one extender at most"),
		argument.Int("weight", 0, 0, mostWeight).Says("how much a point of `prioritizeVerb` counts: as much as 10 × `weight` points of " +
			"`nodeorder`"),
		argument.Bool("enableHTTPS", false).Says("insists on `https://` and on a `caFile`, or on `insecure: true` written out"),
		argument.Mapping("tlsConfig", tlsFields()...).Says("what secures the connection; files only, and the system's authorities " +
			"without a `caFile`"),
		argument.Duration("httpTimeout", defaultTimeout, time.Millisecond).Says("for one call, the answer included"),
		argument.Text("maxResponseBytes", "32Mi").Shaped("a number of bytes such as 32Mi").Says("the longest answer that is read"),
		argument.Bool("nodeCacheCapable", false).Says("send names of nodes in place of whole nodes; better for anything but small " +
			"clusters"),
		argument.Mappings("managedResources", resourceFields()...).Says("ask about pods only that request one of these; about all " +
			"pods when there are none"),
		argument.Bool("ignorable", false).Says("an error keeps nobody waiting; a pod that it does not bind is bound by the API server"),
		argument.Texts("distinguishBy").Says("labels and annotations by which the extender decides"),
	}
}

func tlsFields() argument.List {
	return argument.List{
		argument.Text("caFile", "").Shaped("a file").Says("who vouches for the extender"),
		argument.Text("certFile", "").Shaped("a file").Says("who the scheduler is; goes with a `keyFile`"),
		argument.Text("keyFile", "").Shaped("a file").Says("the key to `certFile`"),
		argument.Text("serverName", "").Says("whom the certificate must be for, in place of the host of the URL"),
		argument.Bool("insecure", false).Says("believe whoever answers to be the extender"),
	}
}

func resourceFields() argument.List {
	return argument.List{
		argument.Text("name", "").Needed().Shaped("an extended resource").Says("the resource"),
		argument.Bool("ignoredByScheduler", false).Says("the extender alone counts it"),
	}
}

// Reader is what ReadArguments needs of a reader of arguments. R is the type of the reader itself: what stands inside a
// list or mapping is read by one of its own.
type Reader[R any] interface {
	argument.Reader
	Items(name string) []R
	Section(name string) (section R, given bool)
}
