// Package debugapi is what a running scheduler shows to its operators: its jobs, the capacity of its nodes, what its last cycles
// did, and its configuration. Each document is a list of typed objects, or the table of its columns. The package has what fills
// the documents, and the handlers that serve them; kubectl tutti prints them.
//
// It decides nothing, and authenticates no caller: the server of the handlers does both authentication and authorization.
//
// The files, in reading order:
//
//	documents.go                                       the lists
//	tables.go                                          what a person reads of each
//	handlers.go                                        how they are served
//	inspect.go                                         how the loop is asked
//	nodes.go, domains.go, queues.go, jobs.go           made on the loop, between two cycles
//	history.go                                         kept by the loop, as cycles end
//	question.go, answer.go                             what would happen, as it is asked and answered
package debugapi
