"""`format("oncelog")`: what Spark asks for by name, and nothing more.

Rule 1: the parameter names of these methods are part of Spark's contract; it calls some of them by keyword.
Rule 2: everything that can be refused is refused here, on the driver, before data is computed.
Rule 3: objects made here are pickled: they hold options and names, never a channel.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from oncelog.errors import ConfigError
from pyspark_oncelog.options.identity import batch_identity, write_attempt
from pyspark_oncelog.options.read_write_options import SinkOptions, SourceOptions, check_names
from pyspark_oncelog.sink.batch_trace import BatchTrace, begin
from pyspark_oncelog.sink.columns import check_write_schema
from pyspark_oncelog.source.read_schema import READ_SCHEMA, READ_SCHEMA_WITH_HEADERS, check_read_schema
from pyspark_oncelog.worker.spark_version import NEEDED_MODULES, require_spark
from pyspark_oncelog.worker.worker_memory import freeze_modules

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_oncelog.sink.batch_writer import OncelogBatchWriter
    from pyspark_oncelog.sink.stream_writer import OncelogStreamWriter
    from pyspark_oncelog.source.batch_reader import OncelogBatchReader

_RANDOM_BYTES = 8


class DefaultSource(DataSource):
    """Source and sink, batch and streaming. Making one raises `ConfigError` when Spark is too old."""

    _plans: bool = True

    def __init__(self, options: dict[str, str]) -> None:
        require_spark(pyspark.__version__, NEEDED_MODULES)
        super().__init__(options)

    def __setstate__(self, state: dict[str, object]) -> None:
        """By pickle comes what Spark commits and aborts with: what it planned was looked at when it was planned."""
        self.__dict__.update(state, _plans=False)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "oncelog"

    def schema(self) -> str:
        """Columns of a read: those of Spark's Kafka source; `headers` only with option includeHeaders.

        Raises `ConfigError` for names of options: Spark asks in `load()`, where they were written, and in CREATE TABLE.
        """
        check_names(self.options)
        with_headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return READ_SCHEMA_WITH_HEADERS if with_headers else READ_SCHEMA

    # ------------------------------------------------------------ source

    def reader(self, schema: StructType) -> OncelogBatchReader:
        """A batch read. Raises `ConfigError` or `UnknownTopicError`."""
        from pyspark_oncelog.source.batch_reader import OncelogBatchReader

        check_read_schema(_types_of(schema))
        return OncelogBatchReader(SourceOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read. What is wrong is raised by the first call of what is returned."""
        from pyspark_oncelog.source.stream_reader import OncelogStreamReader, RefusedStreamReader

        try:
            check_read_schema(_types_of(schema))
            return OncelogStreamReader(SourceOptions.parse(self.options, streaming=True), schema)
        except ConfigError as error:
            return RefusedStreamReader(error)

    # ------------------------------------------------------------ sink

    def writer(self, schema: StructType, overwrite: bool) -> OncelogBatchWriter:
        """A batch write: called once per job, on the driver; its names reach tasks, commit and abort."""
        from pyspark_oncelog.sink.batch_writer import OncelogBatchWriter

        options = self._sink_options(schema, overwrite)
        identity = None
        if options.exactly_once:
            now_us = time.time_ns() // 1000
            identity = batch_identity(
                options.transactional_id,
                options.txn_app_id,
                options.txn_version,
                now_us,
                secrets.token_hex(_RANDOM_BYTES),
                options.topic,
            )
        return OncelogBatchWriter(options, identity, _begin_trace(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OncelogStreamWriter:
        """A streaming write: called for every micro-batch, and once more in the process that commits it."""
        from pyspark_oncelog.sink.stream_writer import OncelogStreamWriter

        options = self._sink_options(schema, overwrite, streaming=True)
        if options.txn_app_id:
            raise ConfigError("txnAppId and txnVersion are for batch writes and foreachBatch: a stream has its own")
        attempt = write_attempt(time.time_ns() // 1_000_000, secrets.token_hex(_RANDOM_BYTES))
        return OncelogStreamWriter(options, attempt, _begin_trace(options))

    def _sink_options(self, schema: StructType, overwrite: bool, streaming: bool = False) -> SinkOptions:
        """Checks in order: options, mode, columns, this Python and, where the write is planned, topic.

        Without its topic a batch can still be aborted, and one that is decided be found committed.
        """
        from pyspark_oncelog import preflight

        options = SinkOptions.parse(self.options, streaming)
        if overwrite and not options.overwrite_appends:
            raise ConfigError(
                "a log cannot be overwritten: use append mode, or option onOverwrite=append to append each complete "
                "result to the topic"
            )
        check_write_schema(_types_of(schema), options.topic)
        preflight.require_python()
        if self._plans:
            preflight.require_topic(options)
        freeze_modules()
        return options


def _begin_trace(options: SinkOptions) -> BatchTrace:
    return begin(options, time.time_ns(), secrets.randbits(128), secrets.randbits(64))


def _types_of(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
