# The worker's image: posefleet, the extractor, the pose models and the inference library, and a small ffmpeg.
#
#   docker build -t posefleet .          or          make image
#
# Nothing here names a download address: package lists, the Go proxy and npm's registry are those of the base images, of the build
# arguments below and of the secret npmrc (docker build --secret id=npmrc,src=$HOME/.npmrc). `make image-check` builds it on base images
# that it makes itself, and runs what came out.

ARG GO_IMAGE=golang:1.26-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

# ---- ffmpeg: Debian's sources with Debian's fixes, without what a worker never uses. Debian's own package brings 450 MB of display,
# sound and hardware libraries. All decoders stay, since phones write all sorts of files; network, devices and nearly all encoders go.
FROM ${BASE_IMAGE} AS ffmpeg

RUN sed -i 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      dpkg-dev gcc libc6-dev make nasm pkg-config zlib1g-dev libdav1d-dev libx264-dev

WORKDIR /src/ffmpeg
RUN apt-get source -q ffmpeg && cd ffmpeg-*/ \
 && ./configure --prefix=/usr --libdir=/usr/lib/posefleet --enable-rpath --enable-gpl --enable-shared --disable-static \
      --disable-doc --disable-debug --disable-autodetect --disable-network --disable-avdevice --disable-postproc --disable-ffplay \
      --enable-zlib --enable-libdav1d --enable-libx264 \
      --disable-encoders --enable-encoder=libx264,rawvideo,wrapped_avframe,png,mjpeg \
      --disable-muxers --enable-muxer=rawvideo,mp4,mov,matroska,image2,null \
      --disable-protocols --enable-protocol=file,pipe \
      --disable-filters --enable-filter=scale,format,noformat,null,showinfo,transpose,hflip,vflip,rotate,pad,crop,setsar,setpts,fps,trim,copy,buffer,buffersink \
 && make -j"$(nproc)" && make install DESTDIR=/out \
 && rm -rf /out/usr/include /out/usr/share /out/usr/lib/posefleet/pkgconfig /out/usr/lib/posefleet/*.so

# ---- the programs and the models. cmd/dev knows the packages that building needs, and the pinned checksums.
FROM ${GO_IMAGE} AS build

ARG GOPROXY
ARG GOSUMDB
ARG POSEFLEET_VERSION=dev

WORKDIR /src/posefleet
COPY go.mod go.sum ./
COPY cmd/dev cmd/dev
COPY internal/assets internal/assets
COPY internal/node internal/node
COPY pose/onnx pose/onnx
COPY pose/tflite pose/tflite
# Without the models' second form, which is for machines that lack the inference library.
RUN --mount=type=secret,id=npmrc,target=/root/.npmrc go run ./cmd/dev assets /out/usr/share/posefleet onnxruntime

COPY . .
RUN go run ./cmd/dev build release && install -D -t /out/usr/local/bin build/bin/posefleet build/bin/posefleet-extract \
 && install -D -m 644 -t /out/usr/share/doc/posefleet LICENSE NOTICE

# ---- what runs
FROM ${BASE_IMAGE}

# libopencv-core406 depends on a graphics stack (Mesa, LLVM: 170 MB) that is there for OpenGL windows alone. What the programs load is
# named here one by one and unpacked without that dependency; it stays known to dpkg, and so to scanners.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates libblas3 libbsd0 libdav1d6 libgfortran5 libgomp1 liblapack3 libprotobuf32 libstdc++6 libtbb12 libx11-6 libx264-164 zlib1g \
 && cd /tmp && apt-get download libglvnd0 libglx0 libopencv-core406 libopencv-imgproc406 libopencv-dnn406 \
 && dpkg --force-depends -i ./*.deb && rm -rf ./*.deb /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*.log /var/log/apt \
 && install -d -o 10001 -g 10001 /var/lib/posefleet

COPY --from=ffmpeg /out/ /
COPY --from=build /out/ /

# A number, not a name: it is the same on every host, and orchestrators can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/posefleet

EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/posefleet", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/posefleet"]
CMD ["worker"]
