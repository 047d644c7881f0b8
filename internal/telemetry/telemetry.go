// Package telemetry sets up OpenTelemetry for the programs, by the environment
// variables that OpenTelemetry defines.
package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/tracing/itemspans"
)

// On reports whether the environment asks for traces: OTEL_TRACES_EXPORTER is
// otlp, or it is not set and an OTLP endpoint is; and OTEL_SDK_DISABLED is not
// true.
func On() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch os.Getenv("OTEL_TRACES_EXPORTER") {
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	case "none":
		return false
	}
	return true
}

// Provider makes the tracer provider that the environment asks for; nil if it
// asks for none. The usual OTEL_ variables set the exporter, its endpoint, headers,
// certificates and timeout, the sampler, the batching and the resource. Spans are sent
// from a bounded queue (2,048 by default, OTEL_BSP_MAX_QUEUE_SIZE), beyond which they
// are dropped and counted: tracing never holds work up, whatever the receiver does.
// Call its Shutdown at the end, which sends what is left.
func Provider(ctx context.Context, service, version string) (*Tracing, error) {
	if !On() {
		return nil, nil
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("send traces: %w: correct the OTEL_ variables, or set OTEL_TRACES_EXPORTER=none", err))
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, events.WithCode(events.CodeBadConfig, fmt.Errorf("describe this process for traces: %w", err))
	}
	q := newSpanQueue(exporter)
	return &Tracing{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(q), sdktrace.WithResource(res), sdktrace.WithIDGenerator(itemspans.IDs{})), q}, nil
}

func newExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	if name := cmp.Or(os.Getenv("OTEL_TRACES_EXPORTER"), "otlp"); name != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: only otlp and none are known here", name)
	}
	switch protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); protocol {
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf and grpc are known here", protocol)
	}
}
