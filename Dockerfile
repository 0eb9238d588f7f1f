# One image for every role: `taffrail broker`, `taffrail controller`, `taffrail operator`, `taffrail up`.
#
#   docker build -t taffrail .                                   compiles in a container, for the platform it is built on
#   docker buildx build --platform linux/amd64,linux/arm64 .     both platforms
#   make image                                                   without Docker and without a registry
#
# `make image` compiles on this machine and makes the last stage of this file, instruction for instruction, into a
# docker-save tar (e2e/kubernetes/image). That is the image which the tests run; `docker build --build-context
# build=target/image .` makes the same one from the same binary.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN make image-binary IMAGE_PROFILE=dist && cp target/image/taffrail /taffrail

# Nothing but the static binary: no shell, no libraries, nothing to update.
FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="taffrail" \
      org.opencontainers.image.description="A replicated log that speaks the Kafka protocol: broker, controller and operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /taffrail /taffrail
# By number, so that `runAsNonRoot` can be checked. Nobody else's in Debian or distroless.
USER 65532:65532
EXPOSE 9092 9093 9404
ENTRYPOINT ["/taffrail"]
