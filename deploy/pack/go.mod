module github.com/streamwright/streamwright/deploy/pack

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/licensecheck v0.3.1
	github.com/klauspost/compress v1.20.3
)
