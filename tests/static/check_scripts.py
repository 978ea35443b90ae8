#!/usr/bin/python3
"""shellcheck on every shell script, byte-compilation of every Python file, and that scripts can be executed."""

import os
import py_compile
import subprocess
import sys
import tempfile

import tree


def first_line(path):
    with open(tree.ROOT / path, "rb") as file:
        return file.readline(100).decode("utf-8", "replace").strip()


def shell_faults(path):
    result = subprocess.run(
        ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--format=gcc", str(path)],
        cwd=tree.ROOT, capture_output=True, text=True,
    )  # fmt: skip
    return (result.stdout + result.stderr).splitlines() if result.returncode else []


def python_faults(path, folder):
    try:
        py_compile.compile(str(tree.ROOT / path), cfile=os.path.join(folder, "out.pyc"), doraise=True)
        return []
    except py_compile.PyCompileError as problem:
        return [str(problem)]


def main():
    tally = tree.Tally()
    with tempfile.TemporaryDirectory() as folder:
        for path in tree.files():
            first = first_line(path)
            is_shell = path.suffix == ".sh" or (first.startswith("#!") and first.endswith("sh"))
            is_python = path.suffix == ".py" or (first.startswith("#!") and "python" in first)
            if not is_shell and not is_python:
                continue
            faults = shell_faults(path) if is_shell else python_faults(path, folder)
            if first.startswith("#!") and not os.access(tree.ROOT / path, os.X_OK):
                faults.append("begins with #! but is not executable")
            if is_python and first.startswith("#!") and first != "#!/usr/bin/python3":
                faults.append(f"begins with {first}, not #!/usr/bin/python3")
            tally.add(path, faults)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
