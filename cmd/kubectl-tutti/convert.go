package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/convert"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

func newConvert(a *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "convert FILE…",
		Short: "Write what the PodGroups, Queues and jobs of kube-batch become",
		Long: `Reads files of kube-batch, in YAML or JSON, and writes as YAML what they become: a PodGroup or a Queue of
scheduling.incubator.k8s.io or scheduling.sigs.dev is one of Tutti, and wherever pods are described, in whatever kind, the annotation
scheduling.k8s.io/group-name is the label scheduling.tutti.dev/pod-group, and schedulerName kube-batch is tutti. All else stays: a
document without anything of kube-batch's as it is written, another one in its order and with its comments, but not its blank lines.

What is lost, and what you must decide, is said on standard error with file, document, object and field. - reads from standard input. It
asks no cluster and writes no file. It fails, and writes nothing, when there is something that cannot be translated. For Volcano's
queues see "kubectl tutti queues convert".`,
		Example: `  kubectl tutti convert job.yaml > tutti-job.yaml
  kubectl tutti convert jobs/*.yaml | kubectl apply --dry-run=server -f -
  helm template release chart | kubectl tutti convert -`,
		Args: atLeastOne("a file, or - for standard input"),
		RunE: func(command *cobra.Command, args []string) error {
			if a.output != "" && a.output != outputYAML {
				return fmt.Errorf("--output %q: say %s, or nothing", a.output, outputYAML)
			}
			var out bytes.Buffer
			var wrong []error
			remarks := printer.New(command.ErrOrStderr(), a.environment)
			for _, name := range args {
				file, text, err := readFile(name, command.InOrStdin())
				if err != nil {
					return err
				}
				translated, said, err := convert.File(text)
				if err != nil {
					wrong = append(wrong, inFile(file, err))
					continue
				}
				for _, remark := range said {
					remarks.Printf("%s: %s\n", file, remark)
				}
				appendDocuments(&out, translated)
			}
			if err := errors.Join(wrong...); err != nil {
				return err
			}
			_, err := command.OutOrStdout().Write(out.Bytes())
			return err
		},
	}
}

// inFile names the file in each of several errors.
func inFile(file string, err error) error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", file, err)
	}
	var all []error
	for _, one := range several.Unwrap() {
		all = append(all, inFile(file, one))
	}
	return errors.Join(all...)
}

// appendDocuments adds documents to others, with a line between that separates them.
func appendDocuments(out *bytes.Buffer, documents []byte) {
	if out.Len() > 0 {
		if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
			out.WriteByte('\n')
		}
		if len(documents) > 0 && !bytes.HasPrefix(documents, []byte("---")) {
			out.WriteString("---\n")
		}
	}
	out.Write(documents)
}
