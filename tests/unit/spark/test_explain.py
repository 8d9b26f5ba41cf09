"""The picture of a pipeline, in the terminal and in files."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from highwater_spark.definition.explain import Graph, as_tree, graph_of, write_picture
from highwater_spark.definition.load import load
from highwater_spark.errors import PipelineError

TEXT = """\
name: visits
sources:
  views: {topic: page-views}
  users: {pattern: "user.*"}
transforms:
  joined: {sql: "SELECT 'views' AS a -- users\\n FROM views"}
  both: {python: "f.py:both", inputs: [joined, users]}
sinks:
  out: {from: both, topic: out, key: a}
  kept: {from: both, table: tables/kept, partition_by: a}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    path = tmp_path / "p.yaml"
    path.write_text(TEXT)
    return graph_of(load(path))


def test_arrows_follow_the_names_in_sql_but_not_those_in_texts_and_comments(graph: Graph) -> None:
    assert ("views", "joined") in graph.arrows
    assert ("users", "joined") not in graph.arrows
    assert {("joined", "both"), ("users", "both"), ("both", "out:out"), ("both", "out:kept")} <= set(graph.arrows)


def test_every_box_stands_right_of_what_leads_to_it(graph: Graph) -> None:
    column = {node.id: number for number, nodes in enumerate(graph.columns()) for node in nodes}
    assert all(column[origin] < column[target] for origin, target in graph.arrows)


def test_the_terminal_shows_the_tree(graph: Graph) -> None:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(as_tree(graph))
    lines = [line.strip(" │├└─") for line in captured.get().splitlines()]
    assert lines[:3] == ["visits", "page-views topic", "views as it is"]
    assert "both f.py:both (see above)" in lines


def test_files_are_drawn_in_the_form_their_name_asks_for(graph: Graph, tmp_path: Path) -> None:
    for name in ("p.svg", "p.mmd", "p.dot"):
        write_picture(graph, tmp_path / name)
    drawing = ET.fromstring((tmp_path / "p.svg").read_text())
    assert len(drawing.findall("{*}path")) == len(graph.arrows)
    assert (tmp_path / "p.mmd").read_text().startswith("flowchart LR")
    assert '"joined" -> "both";' in (tmp_path / "p.dot").read_text()
    with pytest.raises(PipelineError, match="name a file that ends in"):
        write_picture(graph, tmp_path / "p.png")
