module milligpu.io/tests/controlplane

go 1.24
