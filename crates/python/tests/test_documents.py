"""The programs of the README and of the book's page, and the notebooks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

PACKAGE = Path(__file__).parent.parent
ROOT = PACKAGE.parent.parent


def programs(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def check(python: str, program: str, directory: Path) -> None:
    # A file, because the processes of a cluster import it.
    file = directory / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run([python, str(file)], capture_output=True, text=True, timeout=100, cwd=directory)
    assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("program", programs(PACKAGE / "README.md"))
def test_the_readme_runs_with_the_wheel_alone(program: str, tmp_path: Path) -> None:
    python = os.environ.get("ANABRANCH_FRESH_PYTHON")
    assert python is not None, "run scripts/python"
    check(python, program, tmp_path)


@pytest.mark.parametrize("program", programs(ROOT / "docs/how-to/use-python.md"))
def test_the_page_of_the_book_runs(program: str, tmp_path: Path) -> None:
    check(sys.executable, program, tmp_path)


@pytest.mark.parametrize("path", sorted((PACKAGE / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_notebooks_run(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=100, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs), "a notebook shows a picture"
