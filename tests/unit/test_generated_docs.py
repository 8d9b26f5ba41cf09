"""The generated parts of the documentation are what the code says now."""

import importlib.util
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


def generated() -> dict[str, str]:
    """Return what `make docs` would write, by file."""
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    files: dict[Path, str] = generator.generated()
    return {str(path.relative_to(ROOT)): text for path, text in files.items()}


WANTED: Final = generated()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == WANTED[name], "run `make docs` and commit what it writes"
