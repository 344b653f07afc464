# One image for everything: a console script per service, the `oncelog` command line, and no more than locks/server.txt names.
#
#   make image                                 builds it with docker, podman or buildah
#   docker run --rm oncelog:VERSION oncelog --help
#   docker run --rm oncelog:VERSION oncelog-partition-leader --help
#
# It runs as uid 10001 with a read-only root file system: a service writes to its data directory and nowhere else.
# No command needs a shell. A release changes one small layer; the packages below it change with the lock file.

# By digest: the tag alone would be another image tomorrow. The digest is that of the index of all platforms; it is moved on by
# hand, from what the official images publish (docker-library/repo-info, repos/python/remote/3.11-slim-bookworm.md).
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b

# ---------------------------------------------------------------- the packages of the lock file
FROM ${BASE_IMAGE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# Tools that build, in a venv that stays behind. Every package is checked by hash; what has no wheel is built with these.
RUN python3 -m venv /build
COPY locks/build.txt locks/server.txt /locks/
RUN /build/bin/pip install --quiet --require-hashes --requirement /locks/build.txt
RUN /build/bin/pip wheel --quiet --no-build-isolation --require-hashes --requirement /locks/server.txt --wheel-dir /wheels
RUN python3 -m venv --without-pip /opt/oncelog \
 && /build/bin/pip --python /opt/oncelog/bin/python install --quiet --no-index --no-deps /wheels/*.whl
# A third of it is tests, headers, and parts of Arrow and NumPy that no line of oncelog reaches.
RUN cd /opt/oncelog/lib/python3*/site-packages \
 && rm -rf pyarrow/tests pyarrow/include pyarrow/src pyarrow/includes numpy/f2py numpy/distutils numpy/_core/include \
           pyarrow/*flight* pyarrow/libarrow_flight* pyarrow/libarrow_python_flight* pyarrow/*s3* \
           pyarrow/*.pxd pyarrow/*.pyx pyarrow/*.pxi \
 && find numpy -type d -name tests -prune -exec rm -rf {} +

# ---------------------------------------------------------------- oncelog itself
FROM packages AS application
COPY pyproject.toml README.md LICENSE /source/
COPY sdk /source/sdk
COPY spark /source/spark
COPY services /source/services
RUN /build/bin/pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir /own /source \
 && /build/bin/pip --python /opt/oncelog/bin/python install --quiet --no-index --no-deps \
    --no-warn-script-location --root /application /own/*.whl
# What was thrown away above must not be missed: the build fails here, not a pod at two in the morning.
RUN cp -a /application/. / && cd / \
 && for command in oncelog oncelog-partition-leader oncelog-coordinator oncelog-pid-allocator; do \
      /opt/oncelog/bin/$command --help >/dev/null || exit 1; done \
 && /opt/oncelog/bin/python -c "import pyarrow.compute, oncelog.client.client, oncelog.core.batch.batch, oncelog_runtime.process.process" \
 && /opt/oncelog/bin/python -c "import oncelog_partition_leader.broker, oncelog_coordinator.coordinator, oncelog_pid_allocator.service"

# ---------------------------------------------------------------- the image
FROM ${BASE_IMAGE}
COPY --from=packages /opt/oncelog /opt/oncelog
COPY --from=application /application/ /
# A place for data where no volume is mounted, owned by the user that the services run as.
RUN install -d -o 10001 -g 10001 -m 0750 /var/lib/oncelog
ENV PATH=/opt/oncelog/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /var/lib/oncelog
USER 10001:10001
# Clients, other services, clients outside the cluster, probes, metrics.
EXPOSE 9092 9093 9094 9100 9101
CMD ["oncelog", "--help"]
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="oncelog" \
      org.opencontainers.image.description="A partitioned, replicated, transactional log with an exactly-once Spark sink and source" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
