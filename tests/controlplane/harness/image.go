package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Image is the name of the image that every node has, a static busybox.
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

/* a static busybox and what scripts call of it */
func busyboxFiles(busybox string) ([]tarFile, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	files := []tarFile{{name: "bin/", mode: 0o755}, {name: "tmp/", mode: 0o1777},
		{name: "etc/", mode: 0o755}, {name: "bin/busybox", mode: 0o755, data: program}}
	for _, applet := range []string{"sh", "sleep", "echo", "env", "cat", "stat", "test"} {
		files = append(files, tarFile{name: "bin/" + applet, mode: 0o777, link: "busybox"})
	}
	return files, nil
}

/* everything in a folder */
func filesBelow(root string) (files []tarFile, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		file := tarFile{name: name, mode: int64(info.Mode().Perm())}
		switch {
		case info.IsDir():
			file.name += "/"
		case info.Mode()&fs.ModeSymlink != 0:
			file.link, err = os.Readlink(path)
		default:
			file.data, err = os.ReadFile(path)
		}
		files = append(files, file)
		return err
	})
	return files, err
}

// writeImage makes a docker archive with one layer, so that no registry is needed.
func writeImage(path, image string, config Object, files []tarFile) error {
	layer, err := tarball(files...)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	described, err := json.Marshal(Object{"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": Object{"type": "layers",
			"diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}}})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]Object{{"Config": "config.json", "RepoTags": []string{image},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive, err := tarball(tarFile{name: "config.json", mode: 0o644, data: described},
		tarFile{name: "manifest.json", mode: 0o644, data: manifest},
		tarFile{name: "layer.tar", mode: 0o644, data: layer})
	if err != nil {
		return err
	}
	return os.WriteFile(path, archive, 0o644)
}

// ImportProgram gives the node an image of one of our programs, with the file system that the Containerfile gives it.
func (n *RealNode) ImportProgram(image, program string) error {
	root := filepath.Join(n.dir, "image")
	if err := RemoveAll(root); err != nil {
		return err
	}
	if _, err := Run(filepath.Join(Root(), "manifests", "image", "root.sh"), program, root); err != nil {
		return err
	}
	files, err := filesBelow(root)
	if err != nil {
		return err
	}
	archive := root + ".tar"
	entrypoint := []string{"/usr/bin/" + filepath.Base(program)}
	if err := writeImage(archive, image, Object{"Entrypoint": entrypoint}, files); err != nil {
		return err
	}
	return n.importImage(archive)
}
