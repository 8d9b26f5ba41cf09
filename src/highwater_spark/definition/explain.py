"""The picture of a pipeline: as a tree in the terminal, or as a graph in a file (SVG, Mermaid or DOT)."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.markup import escape
from rich.tree import Tree

from highwater_spark.definition.model import JsonFormat, Pipeline, PythonTransform, Source, TextFormat, TopicSink
from highwater_spark.errors import PipelineError

_NOT_CODE: Final = re.compile(r"'(?:[^'\\]|\\.)*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_COLOURS: Final = {"input": "#dbeafe", "view": "#fef9c3", "output": "#dcfce7", "dead": "#fee2e2"}
_STYLES: Final = {"input": "blue", "view": "bold", "output": "green", "dead": "red"}
_BOX_WIDTH: Final = 230
_BOX_HEIGHT: Final = 46
_GAP_X: Final = 70
_GAP_Y: Final = 18


@dataclass(frozen=True, slots=True)
class Node:
    """A box of the picture."""

    id: str
    kind: str  # input, view, output or dead
    title: str
    note: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The boxes of a pipeline and the arrows between them."""

    title: str
    nodes: tuple[Node, ...]
    arrows: tuple[tuple[str, str], ...]

    def after(self, node_id: str) -> list[Node]:
        """Return the boxes that the arrows of one lead to."""
        targets = [target for origin, target in self.arrows if origin == node_id]
        return [node for node in self.nodes if node.id in targets]

    def columns(self) -> list[list[Node]]:
        """Return the boxes from left to right: each stands right of all that lead to it."""
        depth = dict.fromkeys((node.id for node in self.nodes), 0)
        for node in self.nodes:  # in the order of the file, in which nothing refers to what comes later
            for target in self.after(node.id):
                depth[target.id] = max(depth[target.id], depth[node.id] + 1)
        last = max(depth.values())
        depth |= {node.id: last for node in self.nodes if node.kind in {"output", "dead"}}
        return [[node for node in self.nodes if depth[node.id] == column] for column in range(last + 1)]


def graph_of(pipeline: Pipeline) -> Graph:
    """Return the picture of a pipeline."""
    nodes: list[Node] = []
    arrows: list[tuple[str, str]] = []
    views: list[str] = []
    for source in pipeline.sources:
        nodes.append(Node(f"in:{source.name}", "input", source.subscription, "topic"))
        nodes.append(Node(source.name, "view", source.name, _source_note(source)))
        arrows.append((f"in:{source.name}", source.name))
        views.append(source.name)
    for transform in pipeline.transforms:
        if isinstance(transform, PythonTransform):
            inputs, note = list(transform.inputs), transform.reference
        else:
            inputs, note = [view for view in views if view in _tables(transform.sql)], "SQL"
        nodes.append(Node(transform.name, "view", transform.name, note))
        arrows += [(view, transform.name) for view in inputs]
        views.append(transform.name)
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink):
            note = " · ".join(filter(None, ["topic", sink.mode.value, f"key {sink.key}" if sink.key else ""]))
            nodes.append(Node(f"out:{sink.name}", "output", sink.topic, note))
        else:
            parts = f" by {', '.join(sink.partition_by)}" if sink.partition_by else ""
            nodes.append(Node(f"out:{sink.name}", "output", sink.path, f"{sink.format} table{parts}"))
        arrows.append((sink.view, f"out:{sink.name}"))
    nodes.append(Node("dead", "dead", pipeline.dead_letters, "dead letters"))
    arrows += [(source.name, "dead") for source in pipeline.sources]
    return Graph(
        f"{pipeline.name}: {pipeline.description}" if pipeline.description else pipeline.name,
        tuple(nodes),
        tuple(arrows),
    )


def _source_note(source: Source) -> str:
    match source.parse:
        case JsonFormat(columns):
            note = f"json, {len(columns)} columns"
        case TextFormat(columns=columns):
            note = f"text, {len(columns)} columns"
        case _:
            note = "as it is"
    return f"{note} · watermark {source.watermark}" if source.watermark else note


def _tables(sql: str) -> set[str]:
    """Return the names that a SELECT reads from; good enough for a picture."""
    code = _NOT_CODE.sub(" ", sql)
    lists = re.findall(r"\b(?:from|join)\s+(\w+(?:\s*,\s*\w+)*)", code, re.IGNORECASE)
    return {name.strip() for found in lists for name in found.split(",")}


def as_tree(graph: Graph) -> Tree:
    """Return the picture for a terminal; what has two inputs is drawn out once and named the second time."""
    tree = Tree(f"[bold]{escape(graph.title)}[/]", guide_style="dim")
    drawn: set[str] = set()

    def grow(branch: Tree, node: Node) -> None:
        style = _STYLES[node.kind]
        label = f"[{style}]{escape(node.title)}[/] [dim]{escape(node.note)}[/]"
        if node.kind == "view" and node.id in drawn:
            branch.add(f"{label} [dim](see above)[/]")
            return
        drawn.add(node.id)
        below = branch.add(label)
        for following in graph.after(node.id):
            grow(below, following)

    for node in graph.nodes:
        if node.kind == "input":
            grow(tree, node)
    return tree


def write_picture(graph: Graph, path: Path) -> None:
    """Write the picture to a file, in the form that its name asks for."""
    forms = {".svg": _svg, ".mmd": _mermaid, ".dot": _dot}
    form = forms.get(path.suffix)
    if form is None:
        raise PipelineError(f"cannot draw {path.name}: name a file that ends in {', '.join(forms)}")
    path.write_text("\n".join(form(graph)) + "\n", encoding="utf-8")


def _mermaid(graph: Graph) -> Iterator[str]:
    number = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    yield "flowchart LR"
    for node in graph.nodes:
        yield f'    {number[node.id]}["{html.escape(node.title)}<br/>{html.escape(node.note)}"]'
        yield f"    style {number[node.id]} fill:{_COLOURS[node.kind]}"
    for origin, target in graph.arrows:
        yield f"    {number[origin]} --> {number[target]}"


def _dot(graph: Graph) -> Iterator[str]:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    yield f"digraph {quoted(graph.title)} {{"
    yield "    rankdir=LR; node [shape=box, style=filled];"
    for node in graph.nodes:
        label = quoted(node.title)[:-1] + "\\n" + quoted(node.note)[1:]
        yield f'    {quoted(node.id)} [label={label}, fillcolor="{_COLOURS[node.kind]}"];'
    for origin, target in graph.arrows:
        yield f"    {quoted(origin)} -> {quoted(target)};"
    yield "}"


def _svg(graph: Graph) -> Iterator[str]:
    columns = graph.columns()
    place = {
        node.id: (20 + column * (_BOX_WIDTH + _GAP_X), 50 + row * (_BOX_HEIGHT + _GAP_Y))
        for column, nodes in enumerate(columns)
        for row, node in enumerate(nodes)
    }
    width = 40 + len(columns) * (_BOX_WIDTH + _GAP_X) - _GAP_X
    height = 70 + max(len(nodes) for nodes in columns) * (_BOX_HEIGHT + _GAP_Y)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
    yield '<rect width="100%" height="100%" fill="white"/>'
    yield f'<text x="20" y="28" font-size="15">{html.escape(graph.title)}</text>'
    for origin, target in graph.arrows:
        (x1, y1), (x2, y2) = place[origin], place[target]
        x1, y1, y2 = x1 + _BOX_WIDTH, y1 + _BOX_HEIGHT // 2, y2 + _BOX_HEIGHT // 2
        middle = (x1 + x2) // 2
        yield f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" stroke="#64748b"/>'
    for node in graph.nodes:
        x, y = place[node.id]
        size = f'width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6"'
        yield f'<rect x="{x}" y="{y}" {size} fill="{_COLOURS[node.kind]}" stroke="#94a3b8"/>'
        yield f'<text x="{x + 10}" y="{y + 19}" font-size="13">{html.escape(node.title)}</text>'
        yield f'<text x="{x + 10}" y="{y + 36}" font-size="11" fill="#475569">{html.escape(node.note)}</text>'
    yield "</svg>"
