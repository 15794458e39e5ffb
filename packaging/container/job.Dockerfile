# A job's own image: one line adds the program. `shedlock` is the image that packaging/container/Dockerfile builds.
FROM docker.io/library/busybox:stable
COPY --from=shedlock /usr/local/bin/shedlock /usr/local/bin/shedlock
COPY report /usr/local/bin/report
USER 65532:65532
CMD ["report"]
