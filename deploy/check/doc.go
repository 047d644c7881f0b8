// Package check holds the files of deploy against the tools that read them: the
// Dockerfile against BuildKit's parser and checks, the Kubernetes manifests
// against the API's types and kustomize, the units against systemd, the scripts against
// shellcheck; and it builds a release and runs it in an empty root.
//
// It is a module of its own, so that nobody else depends on what it needs.
package check
