# The command `tidegate` in an image without a shell. Build it with
#
#     docker build -t tidegate .
#     docker run --rm -v "$PWD:/data" -w /data tidegate cp https://example.org/file .

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p tidegate-cli

# glibc, certificate authorities and a user without rights, and nothing else.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/tidegate /usr/local/bin/tidegate
ENTRYPOINT ["/usr/local/bin/tidegate"]
