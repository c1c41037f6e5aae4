// Package debugapi is what a running scheduler shows to its operators: the capacity of its nodes, what its last cycles did, and
// its configuration. It has the documents, as JSON, what fills them, and the handlers that serve them; kubectl tutti prints
// them.
//
// It decides nothing, and authenticates no caller: the server of the handlers does both authentication and authorization.
package debugapi
