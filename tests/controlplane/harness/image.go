package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
)

// Image is the name of the only image on the node, a static busybox.
const Image = "docker.io/library/milligpu-busybox:1"

type tarFile struct {
	name string
	mode int64
	link string
	data []byte
}

func tarball(files ...tarFile) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)),
			Typeflag: tar.TypeReg}
		if f.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		} else if f.data == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeImage makes a docker archive of busybox, so that no registry is needed.
func writeImage(path, busybox string) error {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	files := []tarFile{{name: "bin/", mode: 0o755}, {name: "tmp/", mode: 0o1777},
		{name: "etc/", mode: 0o755}, {name: "bin/busybox", mode: 0o755, data: program}}
	for _, applet := range []string{"sh", "sleep", "echo", "env", "cat", "stat", "test"} {
		files = append(files, tarFile{name: "bin/" + applet, mode: 0o777, link: "busybox"})
	}
	layer, err := tarball(files...)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(Object{"architecture": "amd64", "os": "linux",
		"config": Object{"Env": []string{"PATH=/bin"}, "Cmd": []string{"/bin/sleep", "1000000"}},
		"rootfs": Object{"type": "layers",
			"diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}}})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]Object{{"Config": "config.json", "RepoTags": []string{Image},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	image, err := tarball(tarFile{name: "config.json", mode: 0o644, data: config},
		tarFile{name: "manifest.json", mode: 0o644, data: manifest},
		tarFile{name: "layer.tar", mode: 0o644, data: layer})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o644)
}
