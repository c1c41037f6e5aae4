// Package debugapi is what a running scheduler shows of itself to those who operate it: the books of its nodes, what its last
// cycles did, its configuration. It has the documents, as JSON, and the handlers that serve them. The loop fills the documents and
// kubectl tutti prints them, and neither needs the other for it.
//
// Nothing here asks who is asking: whoever serves the handlers puts authentication and authorization in front of them.
package debugapi
