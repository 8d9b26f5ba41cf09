"""The Java client, driven from Python: one JVM with Kafka's jars, whose objects are called through py4j.

No compiler is needed, and a test may have as many consumers as it likes in the one JVM. py4j comes with PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

JVM_OPTIONS = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx256m"]


class JavaClients:
    """A JVM; `java.kafka` is the package `org.apache.kafka`."""

    def __init__(self, jars: Path) -> None:
        """Start it with every jar in the folder `jars`."""
        from py4j.java_gateway import JavaGateway, launch_gateway

        port, process = launch_gateway(classpath=f"{jars}/*", javaopts=JVM_OPTIONS, die_on_exit=True, return_proc=True)
        self._process = process
        self._gateway: Any = JavaGateway(gateway_parameters=_parameters(port))
        self.kafka: Any = self._gateway.jvm.org.apache.kafka
        self.jvm: Any = self._gateway.jvm

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gateway.shutdown()
        self._process.stdin.close()  # this is what it dies of
        self._process.wait()

    def properties(self, settings: Mapping[str, object]) -> Any:
        """Return client settings as Java takes them; `_` stands for `.` in a name."""
        made = self.jvm.java.util.Properties()
        for name, value in settings.items():
            made.setProperty(name.replace("_", "."), str(value).lower() if isinstance(value, bool) else str(value))
        return made

    def list_of(self, values: Iterable[object]) -> Any:
        """Return a Java list."""
        made = self.jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def each(self, iterable: Any) -> Iterator[Any]:
        """Go through what is only iterable in Java, like the records of a poll."""
        iterator = iterable.iterator()
        while iterator.hasNext():
            yield iterator.next()

    def duration(self, ms: int) -> Any:
        """Return a Java duration."""
        return self.jvm.java.time.Duration.ofMillis(ms)

    def consumer(self, **settings: object) -> Any:
        """Make a `KafkaConsumer` of text."""
        text = "org.apache.kafka.common.serialization.StringDeserializer"
        given = {"key_deserializer": text, "value_deserializer": text, **settings}
        return self.kafka.clients.consumer.KafkaConsumer(self.properties(given))

    def tool_output(self, main_class: str, *arguments: str) -> str:
        """Run one of Kafka's tools in this JVM and return what it printed; one that wants to end the JVM has failed."""
        system = self.jvm.java.lang.System
        printed, own_out = self.jvm.java.io.ByteArrayOutputStream(), system.out
        given = self._gateway.new_array(self.jvm.java.lang.String, len(arguments))
        for number, argument in enumerate(arguments):
            given[number] = argument
        tool = self.jvm
        for name in main_class.split("."):
            tool = getattr(tool, name)
        system.setOut(self.jvm.java.io.PrintStream(printed, True))
        try:
            tool.main(given)
        finally:
            system.setOut(own_out)
        output: str = printed.toString()
        assert "Error:" not in output, output
        return output

    def producer(self, **settings: object) -> Any:
        """Make a `KafkaProducer` of text."""
        text = "org.apache.kafka.common.serialization.StringSerializer"
        given = {"key_serializer": text, "value_serializer": text, **settings}
        return self.kafka.clients.producer.KafkaProducer(self.properties(given))


def _parameters(port: int) -> Any:
    from py4j.java_gateway import GatewayParameters

    return GatewayParameters(port=port, auto_convert=True)
