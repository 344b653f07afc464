"""Java functions that are put together from Python, where a call from Python for each record would be what is measured.

py4j can call any method of Java, one exchange over a socket each, but it cannot pass Java a function without calling back into
Python. A method handle is a Java method as a value, and `java.lang.invoke` joins such values: what is joined here runs in Java
alone, needs no Java compiler, and is one call from Python.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.java_gateway import JavaGateway

RECORD: Final = "org.apache.kafka.clients.consumer.ConsumerRecord"
CONSUMER: Final = "org.apache.kafka.clients.consumer.KafkaShareConsumer"
_PRIMITIVES: Final = {"void": "Void", "int": "Integer", "long": "Long", "boolean": "Boolean"}


class JavaChains:
    """Makes functions of Java. `gateway`: to the Java that they are for."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._handles = gateway.jvm.java.lang.invoke.MethodHandles
        self._lookup = self._handles.publicLookup()

    def texts(self) -> Any:
        """A function: a StringBuilder with the values of records, which are strings, and a line's end between them; empty
        without records. It stays in Java: see `kafka_share.in_pieces`."""
        value = self._function("Function", self._method(RECORD, "value", "java.lang.Object"))
        joining = self._jvm.java.util.stream.Collectors.joining("\n")
        streams = "java.util.stream.Stream"
        split = self._method("java.lang.Iterable", "spliterator", "java.util.Spliterator")
        stream_type = self._type(streams, "java.util.Spliterator", "boolean")
        stream = self._lookup.findStatic(self._class("java.util.stream.StreamSupport"), "stream", stream_type)
        mapped = self._method(streams, "map", streams, "java.util.function.Function")
        collected = self._method(streams, "collect", "java.lang.Object", "java.util.stream.Collector")
        chain = self._then(split, self._given(stream, 1, False))
        chain = self._then(chain, self._given(mapped, 1, value))
        collected = self._given(collected, 1, joining).asType(self._type("java.lang.String", streams))
        made = self._type("void", "java.lang.String")
        builder = self._lookup.findConstructor(self._class("java.lang.StringBuilder"), made)
        return self._function("Function", self._then(self._then(chain, collected), builder))

    def acknowledge(self, consumer: Any) -> Any:
        """A function: acknowledges the record that it is given."""
        return self._function("Consumer", self._acknowledge(consumer))

    def settle_next(self, consumer: Any) -> Any:
        """A function: acknowledges the next record of an iterator, and tells the broker, without waiting for its answer."""
        acknowledge = self._acknowledge(consumer)
        commit = self._given(self._method(CONSUMER, "commitAsync", "void"), 0, consumer)
        commit = self._handles.dropArguments(commit, 0, [self._class(RECORD)])
        settle = self._handles.foldArguments(commit, acknowledge)
        following = self._method("java.util.Iterator", "next", "java.lang.Object")
        following = following.asType(self._type(RECORD, "java.util.Iterator"))
        return self._function("Consumer", self._then(following, settle))

    def count_commits(self, counts: Any, failure: Any) -> Any:
        """A callback of commits: adds the number of settled records to a LongSummaryStatistics, and keeps the first error in an
        AtomicReference."""
        size = self._method("java.util.Set", "size", "int").asType(self._type("long", "java.util.Set"))
        added = self._given(self._method("java.util.LongSummaryStatistics", "accept", "void", "long"), 0, counts)
        count = self._function("Consumer", self._then(size, added))
        values = self._method("java.util.Map", "values", "java.util.Collection")
        each = self._method("java.lang.Iterable", "forEach", "void", "java.util.function.Consumer")
        each = self._given(each, 1, count).asType(self._type("void", "java.util.Collection"))
        error = "java.lang.Exception"
        counted = self._handles.dropArguments(self._then(values, each), 1, [self._class(error)])
        swap = self._method(
            *("java.util.concurrent.atomic.AtomicReference", "compareAndSet", "boolean"), *["java.lang.Object"] * 2
        )
        keep = self._given(swap, 0, failure, None).asType(self._type("void", error))
        keep = self._handles.dropArguments(keep, 0, [self._class("java.util.Map")])
        return self._function(
            "org.apache.kafka.clients.consumer.AcknowledgementCommitCallback",
            self._handles.foldArguments(counted, keep),
        )

    def _acknowledge(self, consumer: Any) -> Any:
        return self._given(self._method(CONSUMER, "acknowledge", "void", RECORD), 0, consumer)

    def _class(self, name: str) -> Any:
        if name in _PRIMITIVES:
            return getattr(self._jvm.java.lang, _PRIMITIVES[name]).TYPE
        return self._jvm.java.lang.Class.forName(name)

    def _type(self, returns: str, *takes: str) -> Any:
        classes = [self._class(name) for name in takes]
        return self._jvm.java.lang.invoke.MethodType.methodType(self._class(returns), classes)

    def _method(self, owner: str, name: str, returns: str, *takes: str) -> Any:
        return self._lookup.findVirtual(self._class(owner), name, self._type(returns, *takes))

    def _given(self, handle: Any, position: int, *values: Any) -> Any:
        """The handle with some arguments given."""
        array = self._gateway.new_array(self._jvm.java.lang.Object, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return self._handles.insertArguments(handle, position, array)

    def _then(self, first: Any, second: Any) -> Any:
        return self._handles.filterReturnValue(first, second)

    def _function(self, interface: str, handle: Any) -> Any:
        full = interface if "." in interface else f"java.util.function.{interface}"
        return self._jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self._class(full), handle)
