module milligpu.io/tests/controlplane/build

go 1.26.8

require github.com/containerd/containerd v1.7.29
