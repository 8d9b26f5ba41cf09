"""A YAML file that remembers its lines: every mistake is reported with where it is and what was probably meant."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from highwater_spark.errors import PipelineFileError, did_you_mean

MAX_FILE_BYTES: Final = 1 << 20
_VARIABLE: Final = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")
_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off"})


class Document:
    """One file and the mistakes found in it so far."""

    def __init__(self, path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._environment = os.environ if environment is None else environment
        self._mistakes: list[tuple[int, str]] = []

    def root(self) -> "Section":
        """Read the file; what is not even YAML ends here."""
        try:
            if self.path.stat().st_size > MAX_FILE_BYTES:
                raise PipelineFileError(f"{self.path}: larger than {MAX_FILE_BYTES} bytes; is it a pipeline file?")
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise PipelineFileError(f"{self.path}: no such file") from error
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineFileError(f"{self.path}: cannot be read: {error}") from error
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise PipelineFileError(f"{self.path}:{line}: not YAML: {error.problem}") from error
        except yaml.YAMLError as error:
            raise PipelineFileError(f"{self.path}:1: not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(node, yaml.MappingNode):
            raise PipelineFileError(f"{self.path}:1: a pipeline file is a mapping that starts with `name: ...`")
        return Section(self, node, "the file")

    def mistake(self, line: int, message: str) -> None:
        """Note a mistake; reading goes on, so that one run reports them all."""
        self._mistakes.append((line, message))

    def check(self) -> None:
        """Stop if there were mistakes, with all of them in the order of the file."""
        if self._mistakes:
            raise PipelineFileError("\n".join(f"{self.path}:{line}: {said}" for line, said in sorted(self._mistakes)))

    def expand(self, text: str, line: int) -> str:
        """Replace `${NAME}` and `${NAME:-default}` by the environment's values."""

        def value(found: re.Match[str]) -> str:
            given = self._environment.get(found["name"], found["default"])
            if given is None:
                self.mistake(
                    line, f"the environment has no {found['name']}; set it, or write ${{{found['name']}:-default}}"
                )
                return ""
            return given

        return _VARIABLE.sub(value, text)


class Scalar:
    """A plain value of the file, with its line."""

    def __init__(self, document: Document, node: yaml.ScalarNode) -> None:
        is_block = node.style in {"|", ">"}
        self.line: int = node.start_mark.line + 1
        self.first_text_line = self.line + 1 if is_block else self.line
        self.text = document.expand(str(node.value), self.line)


class Section:
    """A mapping of the file: each key is asked for by name, and `close` reports the keys nobody asked for."""

    def __init__(self, document: Document, node: yaml.MappingNode, title: str) -> None:
        self.document = document
        self.title = title
        self.line: int = node.start_mark.line + 1
        self._asked: list[str] = []
        self._entries: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                document.mistake(key.start_mark.line + 1, "a key must be plain text")
            elif key.value in self._entries:
                document.mistake(key.start_mark.line + 1, f"{key.value!r} is given twice in {title}")
            else:
                self._entries[key.value] = (key, value)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def names(self) -> list[str]:
        """Return the keys, in the order of the file."""
        return list(self._entries)

    def line_of(self, key: str) -> int:
        """Return the line of a key, or of the section if the key is not there."""
        return self._entries[key][0].start_mark.line + 1 if key in self._entries else self.line

    def mistake(self, key: str, message: str) -> None:
        """Note a mistake at a key."""
        self.document.mistake(self.line_of(key), message)

    def scalar(self, key: str) -> Scalar | None:
        """Return a plain value, or nothing if it is not given."""
        node = self._take(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode):
            self.mistake(key, f"{key!r} must be a plain value")
            return None
        return Scalar(self.document, node)

    def text(self, key: str, default: str = "") -> str:
        """Return a text, or the default if it is not given."""
        found = self.scalar(key)
        return default if found is None else found.text

    def required_text(self, key: str) -> str:
        """Return a text that must be given and not be empty."""
        found = self.scalar(key)
        if found is None and key not in self._entries:
            self.document.mistake(self.line, f"{self.title} needs {key!r}")
        elif found is not None and not found.text.strip():
            self.mistake(key, f"{key!r} is empty")
        return "" if found is None else found.text

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices; the first is the default."""
        found = self.text(key, choices[0])
        if found not in choices:
            hint = did_you_mean(found, choices) or f"; it is one of {', '.join(choices)}"
            self.mistake(key, f"{key!r} cannot be {found!r}{hint}")
            return choices[0]
        return found

    def number(self, key: str, *, at_least: int = 1) -> int | None:
        """Return a whole number, or nothing if it is not given."""
        found = self.scalar(key)
        if found is None:
            return None
        try:
            number = int(found.text.replace("_", ""))
        except ValueError:
            self.mistake(key, f"{key!r} must be a whole number, not {found.text!r}")
            return None
        if number < at_least:
            self.mistake(key, f"{key!r} must be at least {at_least}")
            return None
        return number

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a yes or no."""
        found = self.text(key, "true" if default else "false").lower()
        if found not in _TRUE | _FALSE:
            self.mistake(key, f"{key!r} must be true or false, not {found!r}")
        return found in _TRUE

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text stands for a list of one."""
        node = self._take(key)
        if node is None:
            return ()
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        scalars = [item for item in items if isinstance(item, yaml.ScalarNode)]
        if len(scalars) < len(items):
            self.mistake(key, f"{key!r} must be a text or a list of texts")
        return tuple(Scalar(self.document, item).text for item in scalars)

    def section(self, key: str) -> "Section | None":
        """Return a mapping below this one, or nothing if it is not given."""
        node = self._take(key)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            self.mistake(key, f"{key!r} must be a mapping (indented `key: value` lines)")
            return None
        return Section(self.document, node, f"{key!r}" if self.title == "the file" else f"{key!r} of {self.title}")

    def sections(self, key: str, what: str) -> list[tuple[str, "Section"]]:
        """Return the named mappings below a key, such as each source by its name."""
        parent = self.section(key)
        if parent is None:
            return []
        found = [(name, parent.section(name)) for name in parent.names()]
        named = [(name, section) for name, section in found if section is not None]
        for name, section in named:
            section.title = f"{what} {name!r}"
        return named

    def mapping(self) -> dict[str, Scalar]:
        """Return everything in this section as plain values: a schema, or options."""
        found = {name: self.scalar(name) for name in self.names()}
        return {name: scalar for name, scalar in found.items() if scalar is not None}

    def one_of(self, *keys: str) -> str | None:
        """Return which one of several keys is given; none or two is a mistake."""
        given = [key for key in keys if key in self._entries]
        self._asked += keys
        if len(given) == 1:
            return given[0]
        wanted = " or ".join(repr(key) for key in keys)
        self.document.mistake(
            self.line, f"{self.title} needs {'only one of' if given else ''} {wanted}".replace("  ", " ")
        )
        return None

    def close(self) -> None:
        """Report the keys that nobody asked for."""
        for key in self._entries:
            if key not in self._asked:
                known = ", ".join(dict.fromkeys(self._asked))
                hint = did_you_mean(key, self._asked) or f"; it can have {known}"
                self.mistake(key, f"{self.title} has no {key!r}{hint}")

    def _take(self, key: str) -> yaml.Node | None:
        self._asked.append(key)
        entry = self._entries.get(key)
        if entry is None or (isinstance(entry[1], yaml.ScalarNode) and entry[1].tag == "tag:yaml.org,2002:null"):
            return None
        return entry[1]
