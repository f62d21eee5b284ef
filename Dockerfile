# An image of the command. `docker build --tag anabranch .` or `podman build --tag anabranch .` in the root of the repository builds it.
# Not run yet: no machine of the project has podman or docker.
FROM docker.io/library/rust:1.89-bookworm AS build
# For the cryptographic library aws-lc.
RUN apt-get update && apt-get install --yes --no-install-recommends cmake
WORKDIR /source
COPY . .
RUN cargo build --profile dist --locked --package anabranch-cli

FROM docker.io/library/debian:bookworm-slim
COPY --from=build /source/target/dist/anabranch /usr/bin/anabranch
ENTRYPOINT ["/usr/bin/anabranch"]
