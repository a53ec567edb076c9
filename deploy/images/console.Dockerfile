# The console. From the repository's root:
#
#     docker build -f deploy/images/console.Dockerfile -t registry.example.org/tessera/console:0.1.0 .

FROM docker.io/library/python:3.11.14-slim-bookworm AS packages
COPY deploy/images/console.lock /tmp/
RUN python -m venv /opt/tessera/python \
    && /opt/tessera/python/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/console.lock

FROM docker.io/library/python:3.11.14-slim-bookworm
COPY --from=packages /opt/tessera/python /opt/tessera/python
COPY libs/schema/src libs/core/src libs/runtime/src services/console/src /opt/tessera/lib/
RUN python -m compileall -q /opt/tessera/lib
ENV PATH=/opt/tessera/python/bin:$PATH PYTHONPATH=/opt/tessera/lib PYTHONUNBUFFERED=1
# The commit, for tessera_build_info.
ARG REVISION=
ENV TESSERA_PROCESS_REVISION=$REVISION
USER 65532:65532
CMD ["python", "-m", "tessera_console"]
