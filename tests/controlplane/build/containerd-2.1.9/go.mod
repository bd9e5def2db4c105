module milligpu.io/tests/controlplane/build

go 1.26.8

require github.com/containerd/containerd/v2 v2.1.9
