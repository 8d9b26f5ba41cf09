"""AlterClientQuotas (key 49): set and remove limits for users, client ids and addresses."""

from highwater.protocol.schema import Message, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    """One part of an entity: its type, and its name or None for the default of that type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    """A limit to set or to remove."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryData(Struct):
    """An entity and the changes to make."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    """The entities to change."""

    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


class EntryResult(Struct):
    """What became of one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, key=49, response=True, versions="0-1", flexible="1+"):
    """What became of each entity."""

    throttle_time_ms: int = int32()
    entries: list[EntryResult] = array(EntryResult)
