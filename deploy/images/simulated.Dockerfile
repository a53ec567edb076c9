# Simulated cards for clusters that have none, and a program that works on them. From the repository's root:
#
#     docker build -f deploy/images/simulated.Dockerfile -t registry.example.org/tessera/simulated:0.1.0 .

FROM docker.io/library/python:3.11.14-slim-bookworm AS hook
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev make
COPY libs/hook /hook
RUN make -C /hook sim work

FROM docker.io/library/python:3.11.14-slim-bookworm
COPY --from=hook /hook/build/sim/libcuda.so.1 /hook/build/sim/libnvidia-ml.so.1 /opt/tessera/simulated/lib/
COPY --from=hook /hook/build/tessera-work /opt/tessera/simulated/bin/
COPY --chmod=0755 deploy/images/nvidia-smi /opt/tessera/simulated/bin/
COPY --chmod=0755 deploy/images/install-simulated /usr/local/bin/
ENV PATH=/opt/tessera/simulated/bin:$PATH PYTHONUNBUFFERED=1
# The commit.
ARG REVISION=
ENV TESSERA_PROCESS_REVISION=$REVISION
USER 65532:65532
CMD ["tessera-work"]
