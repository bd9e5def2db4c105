package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Root is the top of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(file))))
}

// Version returns the version of Kubernetes that the tests use.
func Version() string {
	if v := os.Getenv("KUBERNETES_VERSION"); v != "" {
		return v
	}
	text, err := os.ReadFile(filepath.Join(Root(), "tests", "controlplane", "VERSION"))
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}

// Minor is the 37 of 1.37.2.
func Minor() int {
	var minor int
	fmt.Sscanf(strings.TrimPrefix(Version(), "1."), "%d", &minor)
	return minor
}

// Component returns the path of a program that build.sh built.
func Component(name string) string {
	return filepath.Join(Root(), "build", "controlplane", Version(), name)
}

/* build.sh always builds this one, and the plugins of the tests beside it */
const ownContainerd = "2.3.7"

// ContainerdVersion returns the version of the containerd of the real node.
func ContainerdVersion() string {
	if v := os.Getenv("CONTAINERD_VERSION"); v != "" {
		return v
	}
	return ownContainerd
}

// ContainerdBefore says whether the real node has a containerd before this version.
func ContainerdBefore(major, minor int) bool {
	var has, hasMinor int
	fmt.Sscanf(ContainerdVersion(), "%d.%d", &has, &hasMinor)
	return has < major || has == major && hasMinor < minor
}

// nodeProgram returns the path of a program of the real node that build.sh built.
func nodeProgram(name string) string {
	version := ownContainerd
	switch name {
	case "containerd", "containerd-shim-runc-v2", "ctr":
		version = ContainerdVersion()
	}
	return filepath.Join(Root(), "build", "controlplane", "containerd-"+version, name)
}

// Program finds one of our programs: named by its environment variable, else beside the milligpud that
// MILLIGPUD names, else in the build folder of a preset.
func Program(name, variable string) (string, error) {
	if p := os.Getenv(variable); p != "" {
		if _, err := os.Stat(p); err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return filepath.Abs(p)
	}
	/* another milligpud has the programs of the same build beside it */
	if p := os.Getenv("MILLIGPUD"); p != "" {
		beside := filepath.Join(filepath.Dir(p), name)
		if _, err := os.Stat(beside); err == nil {
			return filepath.Abs(beside)
		}
	}
	for _, preset := range []string{"release", "dev"} {
		p := filepath.Join(Root(), "build", preset, "bin", name)
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no %s: build it (cmake --preset release && cmake --build --preset "+
		"release) or name it with %s", name, variable)
}

// TempDir makes the folder that one control plane lives in. tests/controlplane/run names the
// parent, so that it can clean up after a test binary that was killed.
func TempDir() (string, error) {
	return os.MkdirTemp(os.Getenv("MILLIGPU_TEST_DIR"), "milligpu-cp-")
}

// RemoveAll deletes a folder, but never one that still has a mount below it.
func RemoveAll(dir string) error {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			return fmt.Errorf("%s is still mounted; %s is left as it is", fields[1], dir)
		}
	}
	return os.RemoveAll(dir)
}
