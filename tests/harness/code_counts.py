"""Count the grain of the code in `src/segue`: modules, statements, and what stands in one.

    .venv/bin/python -m tests.harness.code_counts        for each package, and in total
    .venv/bin/python -m tests.harness.code_counts -v     also each double assignment

A double assignment assigns several values to several names in one statement: `a, b = c, d`. A swap
is none, and neither is the unpacking of one result. All lines of a file count, so blank lines and
comments do, too.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import segue

SOURCE = Path(segue.__file__).parent
HEADER = ("modules", "mean length", "statements", "lines/statement", "double", "double/1000")


def double_assignments(tree: ast.Module) -> Iterator[ast.Assign]:
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Tuple):
            continue
        values = sorted(ast.unparse(it) for it in statement.value.elts)
        for target in statement.targets:
            if isinstance(target, ast.Tuple):
                names = sorted(ast.unparse(it) for it in target.elts)
                if names != values:
                    yield statement


def count(path: Path, *, is_long: bool) -> Counter[str]:
    text = path.read_text()
    tree = ast.parse(text)
    found = list(double_assignments(tree))
    if is_long:
        for statement in found:
            print(f"{path.relative_to(SOURCE)}:{statement.lineno}: {ast.unparse(statement)}")
    return Counter(
        modules=1,
        lines=len(text.splitlines()),
        statements=sum(1 for it in ast.walk(tree) if isinstance(it, ast.stmt)),
        double=len(found),
    )


def row(name: str, counts: Counter[str]) -> str:
    statements = max(1, counts["statements"])
    values = (
        counts["modules"],
        round(counts["lines"] / counts["modules"]),
        counts["statements"],
        round(counts["lines"] / statements, 2),
        counts["double"],
        round(1000 * counts["double"] / statements, 1),
    )
    return f"{name:20}" + "".join(f"{it:>16}" for it in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-v", action="store_true", dest="is_long", help="print each double one")
    is_long = parser.parse_args().is_long
    packages: dict[str, Counter[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        inner = path.relative_to(SOURCE).parts
        package = inner[0] if len(inner) > 1 else "segue"
        packages.setdefault(package, Counter()).update(count(path, is_long=is_long))
    print(" " * 20 + "".join(f"{it:>16}" for it in HEADER))
    for package, counts in packages.items():
        print(row(package, counts))
    total: Counter[str] = Counter()
    for counts in packages.values():
        total.update(counts)
    print(row("in total", total))


if __name__ == "__main__":
    main()
