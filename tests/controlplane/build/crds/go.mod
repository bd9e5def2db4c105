// build.sh takes the CRDs of cert-manager and of the frameworks in examples/ from the modules that the file "files" lists,
// and compiles nothing of them. This module is there for its go.sum, which has their checksums: `go mod tidy` would empty it.
module milligpu.io/tests/controlplane/build/crds

go 1.24
