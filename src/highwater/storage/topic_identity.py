"""`partition.metadata`: which topic a partition's folder belongs to, for its name may be another topic's by now.

A broker that was away while a topic was deleted, or moved from it, may find the folder of the old one under the name of
the new. The layout is Apache Kafka's (`PartitionMetadataFile`), with a line more, which Apache Kafka does not read: a
checksum, for a flipped bit must not make a partition another topic's.
"""

import zlib
from pathlib import Path
from typing import Final

from highwater.model.ids import TopicId, topic_id_from_text, topic_id_text
from highwater.storage.files import Files, read_file, write_all

FILE_NAME: Final = "partition.metadata"
_TOPIC_ID: Final = "topic_id: "


def read_topic_id(files: Files, folder: Path) -> TopicId | None:
    """Return the topic of a partition's folder; None if it does not say, or a power cut took what it said."""
    content = read_file(files, folder / FILE_NAME)
    if content is None:
        return None
    try:
        _, line, *_ = content.decode("ascii").splitlines()
        topic_id = topic_id_from_text(line.removeprefix(_TOPIC_ID))
    except ValueError:
        return None
    return topic_id if content == _content(topic_id) else None


def write_topic_id(files: Files, folder: Path, topic_id: TopicId) -> None:
    """Let a partition's folder say whose it is."""
    content = _content(topic_id)
    file = files.create(folder / FILE_NAME)
    file.cut(0)
    write_all(file, [content], 0, len(content))


def _content(topic_id: TopicId) -> bytes:
    lines = f"version: 0\n{_TOPIC_ID}{topic_id_text(topic_id)}\n".encode("ascii")
    return lines + b"crc: %08x\n" % zlib.crc32(lines)
