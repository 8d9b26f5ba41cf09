"""DescribeClientQuotas (key 48): the limits that are set for users, client ids and addresses."""

from highwater.protocol.schema import Message, Struct, array, boolean, float64, int8, int16, int32, string


class ComponentData(Struct):
    """What to match in one part of an entity."""

    entity_type: str = string()
    match_type: int = int8()  # 0: this name, 1: the default, 2: any name
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    """Which entities to show."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Struct):
    """One part of an entity: its type, and its name or None for the default of that type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ValueData(Struct):
    """A limit."""

    key: str = string()
    value: float = float64()


class EntryData(Struct):
    """An entity and its limits."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Message, key=48, response=True, versions="0-1", flexible="1+"):
    """The entities that match."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
