# The commands of daily work; `make` lists them.

export CGO_ENABLED = 0
export GOFLAGS = -trimpath

.PHONY: help build playground test browser short race lint docs generate fuzz profile ci

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: playground ## Build the programs into bin/
	go build -o bin/ ./cmd/engine
	go build -o bin/streamwright-tail ./cmd/tail

playground: ## Compile the playground of the documentation, which the programs embed
	go run -pgo=off ./internal/playground/make internal/docs/site/playground

test: ## Run all tests, but most of those in a browser
	go test ./...

browser: ## Run all tests in a browser
	cd internal/pagetest && go test -timeout 30m ./...

short: ## Run the tests that take less than a second each
	go test -short ./...

race: ## Run one package's tests under the race detector: make race PKG=./dispatcher
	CGO_ENABLED=1 GOFLAGS= go test -race $(or $(PKG),./...)

lint: ## Check format, vet and staticcheck
	@test -z "$$(git ls-files '*.go' | xargs gofmt -l)" || { echo 'gofmt would change:'; git ls-files '*.go' | xargs gofmt -l; exit 1; }
	@check=$$(go tool -modfile=tools/go.mod -n staticcheck) && for module in $$(git ls-files 'go.mod' '*/go.mod' ':!tools/go.mod' | xargs -n 1 dirname); do \
		echo "$$module: vet and staticcheck"; (cd $$module && go vet -pgo=off ./... && GOFLAGS="$(GOFLAGS) -pgo=off" $$check ./...) || exit 1; done

docs: ## Write the generated parts of the documentation anew
	go test ./events/core -update
	UPDATE_DOCS=1 go test ./config ./internal/schemas ./access ./internal/deploy

generate: ## Write the generated code anew, after changes of types that it is for
	go run -pgo=off ./internal/jsongen

fuzz: ## Run every fuzz target for a minute: make fuzz TIME=1m
	tools/fuzz.sh $(or $(TIME),1m)

profile: ## Measure the profile again that the compiler optimizes the engine by
	go build -pgo=off -o bin/ ./cmd/engine
	bin/engine bench --durability interval --only flow,burndown,bulk --items 60000 --cpuprofile bin/interval.prof
	bin/engine bench --durability always --only flow,burndown,bulk,rebuild --items 40000 --cpuprofile bin/always.prof
	go tool pprof -proto -output=cmd/engine/default.pgo bin/interval.prof bin/always.prof

ci: ## Run what CI runs
	.ci/run
