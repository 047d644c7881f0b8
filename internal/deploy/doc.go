// Package deploy holds the tests of what is in the folder deploy, and of
// docs/reference/METRICS.md: dashboards, alerts and documentation name only metrics that
// the engine exports, and Prometheus itself takes the rules and scrapes a real
// engine. It has nothing that a program imports.
package deploy
