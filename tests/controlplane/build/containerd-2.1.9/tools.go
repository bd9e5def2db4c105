//go:build tools

// Package tools keeps containerd's programs among the module's dependencies: without these imports `go mod tidy`
// would drop them. Nothing here is ever compiled.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
