package rest

import "net/http"

// WriteProblem refuses a request with the problem document of an error, for the
// handlers that are mounted on the server.
func WriteProblem(w http.ResponseWriter, err error) { writeProblem(w, err) }
