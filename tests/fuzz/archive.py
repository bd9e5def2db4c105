"""The corpus of a fuzz target: named inputs are in corpus/TARGET, what searches found is packed in corpus/TARGET.tar.

Found inputs are named by the SHA-1 of their bytes, as libFuzzer does. The archive has the same bytes on every machine:
sorted by name, without owner, time or permissions, and not compressed, because git compresses better.
"""

import hashlib
import io
import pathlib
import re
import tarfile
from typing import Dict, List

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def archive(target: str) -> pathlib.Path:
    return CORPUS / f"{target}.tar"


def name_of(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def is_found(name: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", name) is not None


def named(target: str) -> List[pathlib.Path]:
    return sorted(path for path in (CORPUS / target).iterdir() if not is_found(path.name))


def inputs_of(tar_bytes: bytes) -> Dict[str, bytes]:
    """The inputs by name. ValueError: this is no such archive."""
    inputs = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(tar_bytes), mode="r:") as tar:
            for member in tar:
                file = tar.extractfile(member)
                inputs[member.name] = file.read() if file is not None else b""
    except tarfile.TarError as trouble:
        raise ValueError(str(trouble)) from trouble
    return inputs


def found(target: str) -> Dict[str, bytes]:
    """The packed inputs, by name."""
    return inputs_of(archive(target).read_bytes()) if archive(target).exists() else {}


def packed(inputs: Dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(inputs):
            if name != name_of(inputs[name]):
                raise ValueError(f"{name} is not the SHA-1 of what is in it")
            member = tarfile.TarInfo(name)
            member.size = len(inputs[name])
            tar.addfile(member, io.BytesIO(inputs[name]))
    return out.getvalue()


def write(target: str, inputs: Dict[str, bytes]) -> None:
    if inputs:
        archive(target).write_bytes(packed(inputs))
    else:
        archive(target).unlink(missing_ok=True)


def pack(target: str) -> int:
    """Move found inputs that lie beside the named ones into the archive; return how many."""
    loose = [path for path in (CORPUS / target).iterdir() if is_found(path.name)]
    write(target, {**found(target), **{path.name: path.read_bytes() for path in loose}})
    for path in loose:
        path.unlink()
    return len(loose)
