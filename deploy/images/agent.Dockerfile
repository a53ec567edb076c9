# The agent, and the hook library that it puts on its node. From the repository's root:
#
#     docker build -f deploy/images/agent.Dockerfile -t registry.example.org/tessera/agent:0.1.0 .

# The library is loaded into every container that holds a share: one that needs only an old glibc
# (2.17) runs in all of them.
FROM docker.io/library/python:3.11.14-slim-bookworm AS hook
RUN apt-get update && apt-get install --yes --no-install-recommends binutils make
COPY deploy/images/hook.lock /tmp/
RUN pip install --no-cache-dir --require-hashes -r /tmp/hook.lock
COPY libs/hook /hook
RUN if [ "$(uname -m)" = aarch64 ]; then \
        make -C /hook aarch64 && cp -r /hook/build/aarch64 /hook/build/release; \
    else make -C /hook release; fi

FROM docker.io/library/python:3.11.14-slim-bookworm AS packages
COPY deploy/images/agent.lock /tmp/
RUN python -m venv /opt/tessera/python \
    && /opt/tessera/python/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/agent.lock

FROM docker.io/library/python:3.11.14-slim-bookworm
COPY --from=packages /opt/tessera/python /opt/tessera/python
COPY --from=hook /hook/build/release/libtessera.so /opt/tessera/libtessera.so
COPY libs/schema/src libs/core/src libs/runtime/src libs/kubelet/src services/agent/src /opt/tessera/lib/
COPY --chmod=0755 deploy/images/install-hook /usr/local/bin/
RUN python -m compileall -q /opt/tessera/lib
ENV PATH=/opt/tessera/python/bin:$PATH PYTHONPATH=/opt/tessera/lib PYTHONUNBUFFERED=1
# The commit, for tessera_build_info.
ARG REVISION=
ENV TESSERA_PROCESS_REVISION=$REVISION
# The manifests say 0: the runtime's socket is root's.
USER 65532:65532
CMD ["python", "-m", "tessera_agent"]
