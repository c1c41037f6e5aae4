package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/convert"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

func newQueuesConvert(a *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "convert FILE",
		Short: "Write the Queues that the queues of kube-batch or Volcano become",
		Long: `Reads queues of kube-batch or Volcano, in YAML or JSON, and writes Queues of Tutti as YAML, each with a comment for everything
that is not taken over or means something else. With -o json the comments go to standard error. - reads from standard input. It asks
no cluster and changes nothing. It fails, and writes no Queue, when the file has an object that it cannot convert.

Any namespace may use a queue of theirs, and so each Queue here is open to all; name the namespaces in spec.namespaceSelector to
close it. Jobs say their queue in spec.queue of the PodGroup or by the label scheduling.tutti.dev/queue.`,
		Example: `  kubectl get queues.scheduling.volcano.sh -o yaml | kubectl tutti queues convert - > queues.yaml
  kubectl tutti queues convert volcano-queues.yaml | kubectl apply --dry-run=server -f -`,
		Args: oneOf("a file, or - for standard input"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			file, text, err := readFile(args[0], command.InOrStdin())
			if err != nil {
				return err
			}
			queues, err := convert.Queues(bytes.NewReader(text))
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			p := a.command(command)
			if a.output == outputJSON {
				remarks := printer.New(command.ErrOrStderr(), a.environment)
				for _, queue := range queues {
					writeRemarks(remarks, queue)
				}
				return p.Encode(outputJSON, queueList{metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, queues})
			}
			for i, queue := range queues {
				if i > 0 {
					p.Printf("---\n")
				}
				writeRemarks(p, queue)
				if err := p.Encode(outputYAML, queue); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// queueList is a list that kubectl applies.
type queueList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []convert.Queue `json:"items"`
}

func writeRemarks(p *printer.Printer, queue convert.Queue) {
	for _, remark := range queue.Remarks {
		p.Printf("# %s: %s\n", queue.Metadata.Name, remark)
	}
}
