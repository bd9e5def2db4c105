"""The packed fuzz corpus is as tests/fuzz/archive.py writes it: no owner, no time, inputs named by their hash."""

import sys
from typing import Dict, List

from tidy import Finding, ROOT

sys.path.insert(0, str(ROOT / "tests/fuzz"))
import archive  # noqa: E402

INPUT = b"an input that was found"


def check(targets: List[str], archives: Dict[str, bytes], loose: List[str]) -> List[Finding]:
    found = [Finding(path, 1, "was found by a search: pack it with tests/fuzz/run --pack") for path in loose]
    for target, data in archives.items():
        path = f"tests/fuzz/corpus/{target}.tar"
        if target not in targets:
            found.append(Finding(path, 1, f"there is no tests/fuzz/fuzz_{target}.c"))
        try:
            same = archive.packed(archive.inputs_of(data)) == data
        except (ValueError, OSError) as trouble:
            found.append(Finding(path, 1, str(trouble)))
            continue
        if not same:
            found.append(Finding(path, 1, "is not as tests/fuzz/run --pack writes it"))
    return found


def main() -> None:
    good = archive.packed({archive.name_of(INPUT): INPUT})
    bad = [([], {"x": good}, []), (["x"], {}, ["tests/fuzz/corpus/x/" + "0" * 40]), (["x"], {"x": good[:700]}, []),
           (["x"], {"x": good.replace(b"input", b"INPUT")}, []), (["x"], {"x": good + bytes(512)}, [])]
    for sample in bad:
        if not check(*sample):
            sys.exit(f"this check misses a bad sample: {sample}")
    if check(["x"], {"x": good}, []):
        sys.exit("this check flags a good sample")
    targets = [path.stem[len("fuzz_"):] for path in (ROOT / "tests/fuzz").glob("fuzz_*.c")]
    archives = {path.stem: path.read_bytes() for path in sorted(archive.CORPUS.glob("*.tar"))}
    loose = [str(path.relative_to(ROOT)) for path in archive.CORPUS.glob("*/*") if archive.is_found(path.name)]
    if not archives:
        sys.exit("this check was given no files")
    findings = check(targets, archives, loose)
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.message}")
    print(f"{len(archives)} archives, {len(bad)} bad samples flagged, {len(findings)} findings")
    sys.exit(1 if findings else 0)


main()
