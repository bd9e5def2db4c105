"""Shared by the programs of this folder: a check is a function, a problem a sentence, and the run fails if there is one."""

import sys

import yaml

yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, if PyYAML was built with libyaml
problems = []


def need(truth, sentence):
    if not truth:
        problems.append(sentence)


def run(check, about=""):
    """Prints whether a check, which its docstring describes, found a problem."""
    before = len(problems)
    check()
    print(f"{'ok' if len(problems) == before else 'not ok'} - {about}{check.__doc__}", flush=True)


def finish(what):
    """Prints the problems, and ends the program."""
    for problem in problems:
        print(f"{what}: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)
