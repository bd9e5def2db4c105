"""A page of metrics against the generated document that describes them."""

import re

import harness

OF_HISTOGRAMS = re.compile("_(bucket|sum|count)$")


def follows_its_table(test, page, document):
    """Each family of the page has the help, the type and the label names, in their order, that the document has."""
    rows = {name: (kind, re.findall(r"\w+", labels), help)
            for name, kind, labels, help in re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w,]*) \| (.*) \|$",
                                                       (harness.SOURCE / document).read_text(), re.M)}
    name, seen = None, []
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name, help = line.removeprefix("# HELP ").split(" ", 1)
            test.assertNotIn(name, seen)
            test.assertEqual(help, rows[name][2], line)
            seen.append(name)
        elif line.startswith("# TYPE "):
            test.assertEqual(line, f"# TYPE {name} {rows[name][0]}")
        else:
            sample = re.fullmatch(r'(\w+)(?:\{(.*)\})? -?[0-9.]+', line)
            base = OF_HISTOGRAMS.sub("", sample[1]) if rows[name][0] == "histogram" else sample[1]
            test.assertEqual(base, name, line)
            labels = re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', sample[2] or "")
            test.assertEqual([label for label in labels if label != "le"], rows[name][1], line)
    return [name for name in rows if name in seen], seen
