"""The text form of topic ids."""

from highwater.model.ids import TopicId, topic_id_from_text, topic_id_text


def test_a_topic_id_survives_its_text_form() -> None:
    topic_id = TopicId(bytes(range(16)))
    text = topic_id_text(topic_id)
    assert len(text) == 22
    assert topic_id_from_text(text) == topic_id
