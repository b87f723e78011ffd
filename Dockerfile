# SPDX-License-Identifier: Apache-2.0
# Two stages by the repository's own scripts: the first builds, the second holds the binary and the libraries it links.
#   docker build -t quire . && docker run -p 8000:8000 -v "$PWD/models:/models:ro" quire /models/MODEL.gguf --api-key SECRET
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY . .
RUN sh -c '. scripts/packages && need $build_packages'
RUN make -s -j"$(nproc)" build/quire && strip build/quire

FROM debian:bookworm-slim
COPY --from=build /src/scripts/packages /tmp/packages
RUN sh -c '. /tmp/packages && need $run_packages' && rm -rf /var/lib/apt/lists/* /tmp/packages
COPY --from=build /src/build/quire /usr/local/bin/quire
COPY --from=build /src/LICENSE /usr/share/doc/quire/LICENSE
RUN useradd --system --no-create-home quire
USER quire
EXPOSE 8000
ENV QUIRE_HOST=0.0.0.0
ENTRYPOINT ["quire", "serve"]
