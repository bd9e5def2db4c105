package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	for _, applet := range []string{"sh", "sleep", "echo", "env", "cat", "stat", "test", "ls", "cp", "head"} {
		files = append(files, tarFile{name: "bin/" + applet, mode: 0o777, link: "busybox"})
	}
	return files, nil
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

/* archives of our images, by the path of the program; building one takes seconds */
var built = map[string][]byte{}

// ImportOwn gives the node one of our images, under the name that the manifests have for it.
func (n *RealNode) ImportOwn(image, program string) error {
	archive := filepath.Join(n.dir, image+".tar")
	if built[program] == nil {
		if err := n.buildOwn(image, program); err != nil {
			return err
		}
	}
	if err := os.WriteFile(archive, built[program], 0o644); err != nil {
		return err
	}
	return n.importImage(archive)
}

/* buildah builds it by the Containerfile, from the tree that program is in */
func (n *RealNode) buildOwn(image, program string) error {
	if _, err := exec.LookPath("buildah"); err != nil {
		return fmt.Errorf("%w: scripts/install-deps.sh --controlplane", err)
	}
	dir := filepath.Join(n.dir, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	/* a store of its own, which needs no mounts */
	store := filepath.Join(dir, "storage.conf")
	text := fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n",
		filepath.Join(dir, "store"), filepath.Join(dir, "run"))
	if err := os.WriteFile(store, []byte(text), 0o644); err != nil {
		return err
	}
	_, err := Run("env", "CONTAINERS_STORAGE_CONF="+store, "BUILDAH_ISOLATION=chroot",
		filepath.Join(Root(), "scripts", "build-images.sh"), "--tool", "buildah",
		"--from", filepath.Dir(filepath.Dir(program)), "--export", dir, image)
	if err != nil {
		return err
	}
	built[program], err = os.ReadFile(filepath.Join(dir, image+".tar"))
	return err
}

// ImportScheduler gives the node an image of the cluster's kube-scheduler, as the registry of Kubernetes has one for each
// version. It returns the tag.
func (n *RealNode) ImportScheduler() (tag string, err error) {
	program, err := os.ReadFile(Component("kube-scheduler"))
	if err != nil {
		return "", err
	}
	tag = "v" + Version()
	files := []tarFile{{name: "usr/", mode: 0o755}, {name: "usr/local/", mode: 0o755}, {name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/kube-scheduler", mode: 0o755, data: program}}
	archive := filepath.Join(n.dir, "kube-scheduler.tar")
	config := Object{"Env": []string{"PATH=/usr/local/bin"}}
	if err := writeImage(archive, "registry.k8s.io/kube-scheduler:"+tag, config, files); err != nil {
		return "", err
	}
	return tag, n.importImage(archive)
}

// TagImage gives an image of the node another name, as if the node had pulled it by that name.
func (n *RealNode) TagImage(image, name string) error {
	_, err := n.ctr("images", "tag", "--force", image, name)
	return err
}
