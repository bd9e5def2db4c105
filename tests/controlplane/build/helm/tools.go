//go:build tools

// Package tools keeps helm among the module's dependencies: without this import `go mod tidy` would drop it. Nothing
// here is ever compiled.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
