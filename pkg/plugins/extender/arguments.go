package extender

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/argument"
)

const (
	defaultTimeout  = 5 * time.Second
	defaultResponse = 32 << 20
	// mostWeight keeps sums of scores far below the int64 limit; see maxExtenderScore.
	mostWeight = 1_000_000
)

// Arguments are the plugin's arguments: a list of extenders, each under kube-scheduler's names.
func Arguments() argument.List {
	return argument.List{
		argument.Mappings("extenders", fields()...).MarkRequired().WithHelp("the extenders, in the order in which they are asked"),
	}
}

// fields are the arguments of one extender.
func fields() argument.List {
	return argument.List{
		argument.Text("urlPrefix", "").MarkRequired().WithFormat("a URL").WithHelp("where the extender is; a call goes to the prefix, a slash and " +
			"the verb. It holds no credentials: name a `certFile` and a `keyFile`"),
		argument.Text("filterVerb", "").WithHelp("which nodes will do; not asked without a verb, as with the others"),
		argument.Text("preemptVerb", "").WithHelp("on which nodes pods may be evicted; see below"),
		argument.Text("prioritizeVerb", "").WithHelp("which nodes are best, from 0 to 10; needs a `weight` of 1 or more"),
		argument.Text("bindVerb", "").WithHelp("binds pods in place of the API server; one extender at most"),
		argument.Int("weight", 0, 0, mostWeight).WithHelp("how much a point of `prioritizeVerb` counts: as much as 10 × `weight` points of " +
			"`nodeorder`"),
		argument.Bool("enableHTTPS", false).WithHelp("insists on `https://` and on a `caFile`, or on `insecure: true` written out"),
		argument.Mapping("tlsConfig", tlsFields()...).WithHelp("what secures the connection; files only, and the system's authorities " +
			"without a `caFile`"),
		argument.Duration("httpTimeout", defaultTimeout, time.Millisecond).WithHelp("for one call, the answer included; 30s at most"),
		argument.Text("maxResponseBytes", "32Mi").WithFormat("a number of bytes such as 32Mi").WithHelp("the longest answer that is read"),
		argument.Bool("nodeCacheCapable", false).WithHelp("send names of nodes in place of whole nodes; better for anything but small " +
			"clusters"),
		argument.Mappings("managedResources", resourceFields()...).WithHelp("ask about pods only that request one of these; about all " +
			"pods when there are none"),
		argument.Bool("ignorable", false).WithHelp("an error keeps no pod waiting; a pod that it does not bind is bound by the API server"),
		argument.Texts("distinguishBy").WithHelp("labels and annotations by which the extender decides"),
	}
}

func tlsFields() argument.List {
	return argument.List{
		argument.Text("caFile", "").WithFormat("a file").WithHelp("the certificate authorities of the extender's certificate"),
		argument.Text("certFile", "").WithFormat("a file").WithHelp("the scheduler's own certificate; goes with a `keyFile`"),
		argument.Text("keyFile", "").WithFormat("a file").WithHelp("the key to `certFile`"),
		argument.Text("serverName", "").WithHelp("the name that the certificate must be for, in place of the host of the URL"),
		argument.Bool("insecure", false).WithHelp("accept any certificate as the extender's"),
	}
}

func resourceFields() argument.List {
	return argument.List{
		argument.Text("name", "").MarkRequired().WithFormat("an extended resource").WithHelp("the resource"),
		argument.Bool("ignoredByScheduler", false).WithHelp("the extender alone counts it"),
	}
}

// Reader is what ReadArguments needs of a reader of arguments. R is the type of the reader itself: the content of a list or
// mapping has a reader of its own.
type Reader[R any] interface {
	argument.Reader
	Items(name string) []R
	Section(name string) (section R, given bool)
	// RefuseSecret is as Refuse, and does not show the value.
	RefuseSecret(name, must string)
}
