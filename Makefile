# All work is done by cmd/dev, which needs Go alone; make is for those who have it. A machine without make: go run ./cmd/dev TARGET

DEV := go run ./cmd/dev

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## set up, build, and run the main job on a real clip (CLIP=path for one of yours)
	@$(DEV) demo $(CLIP)

.PHONY: test
test: ## set up, build, run all tests and the linter (PKG=./queue/... for some)
	@$(DEV) test $(PKG)

.PHONY: setup
setup: ## bring this machine what posefleet needs: packages, models, inference library
	@$(DEV) setup

.PHONY: build
build: ## build build/bin/posefleet and build/bin/posefleet-extract
	@$(DEV) build

.PHONY: lint
lint: ## go vet and golangci-lint
	@$(DEV) lint

.PHONY: vuln
vuln: ## look for known vulnerabilities in what the programs call, offline
	@$(DEV) vuln

.PHONY: race
race: ## run the tests of the pure Go packages three times under the race detector
	@$(DEV) race $(PKG)

.PHONY: drill
drill: ## run a fleet under load and faults (ARGS="-jobs 10000 -seed 2" for a longer one)
	@$(DEV) drill $(ARGS)

.PHONY: bench
bench: ## run the benchmarks (PKG=./queue/... for some)
	@$(DEV) bench $(PKG)

.PHONY: eval
eval: ## measure how good the poses are, against pictures and clips with truth
	@$(DEV) eval

.PHONY: image
image: ## build the container image with docker or buildah
	@$(DEV) image

.PHONY: image-check
image-check: ## build the image without an engine, run the programs from it, print its sizes (as root)
	@$(DEV) image-check

.PHONY: clean
clean: ## remove what was built here (what setup fetched is in the user's cache and stays)
	@rm -rf build
