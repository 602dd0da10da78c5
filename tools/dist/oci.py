#!/usr/bin/env python3
"""An OCI image without an engine: carries out a Containerfile that starts FROM scratch and runs nothing.

    tools/dist/oci.py CONTAINERFILE CONTEXT TAG ARCHIVE    ARCHIVE is an image layout (oci-archive) with one image, of one layer

Knows the instructions below and refuses all others. Times are SOURCE_DATE_EPOCH, owners what COPY says, modes those of CONTEXT:
the same input gives the same bytes.
"""

import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
import sys
import tarfile

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
CREATED = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
MEDIA = "application/vnd.oci.image."
NANOSECONDS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


class Image:
    """What a Containerfile says: the configuration in the words of the image specification, and what is copied."""

    def __init__(self, context):
        self.context, self.config, self.history = context, {}, []
        # Paths in the image, each with (source or None for a folder, owner, group).
        self.entries = {}

    def carry_out(self, line):
        instruction, _, rest = line.partition(" ")
        known = getattr(self, f"on_{instruction.lower()}", None)
        if known is None:
            raise ValueError(f"{instruction} is not known here")
        known(rest.strip())
        self.history.append({"created": CREATED, "created_by": line, "empty_layer": instruction != "COPY"})

    def on_from(self, rest):
        if rest != "scratch":
            raise ValueError(f"FROM {rest}: there is no engine to fetch it")

    def on_copy(self, rest):
        owner, group = 0, 0
        if match := re.match(r"--chown=(\d+):(\d+) ", rest):
            owner, group, rest = int(match[1]), int(match[2]), rest[match.end():]
        source, target = rest.split()
        source, target = self.context / source, target.strip("/")
        if not source.is_dir():
            raise ValueError(f"COPY {rest}: no folder {source}")
        self.add_folders_above(target)
        if target:
            self.entries[target] = (source, owner, group)
        for path in source.rglob("*"):
            name = path.relative_to(source).as_posix()
            self.entries[f"{target}/{name}" if target else name] = (path, owner, group)

    def add_folders_above(self, target):
        """Folders that a target is in, and no COPY has made, belong to root."""
        for folder in pathlib.PurePosixPath(target).parents:
            if folder.name:
                self.entries.setdefault(str(folder), (None, 0, 0))

    def on_env(self, rest):
        self.config.setdefault("Env", []).extend(shlex.split(rest))

    def on_label(self, rest):
        self.config.setdefault("Labels", {}).update(pair.split("=", 1) for pair in shlex.split(rest))

    def on_user(self, rest):
        self.config["User"] = rest

    def on_workdir(self, rest):
        self.config["WorkingDir"] = rest

    def on_volume(self, rest):
        self.config.setdefault("Volumes", {}).update({path: {} for path in rest.split()})

    def on_expose(self, rest):
        self.config.setdefault("ExposedPorts", {}).update({port: {} for port in rest.split()})

    def on_stopsignal(self, rest):
        self.config["StopSignal"] = rest

    def on_entrypoint(self, rest):
        self.config["Entrypoint"] = json.loads(rest)

    def on_cmd(self, rest):
        self.config["Cmd"] = json.loads(rest)

    def on_healthcheck(self, rest):
        """No part of the image specification: Docker's engine reads it from the same place."""
        options, command = rest.split("CMD", 1)
        check = {"Test": ["CMD", *json.loads(command)]}
        for name, number, unit in re.findall(r"--(interval|timeout)=(\d+)(ms|s|m|h)\b", options):
            check[name.capitalize()] = int(number) * NANOSECONDS[unit]
        self.config["Healthcheck"] = check

    def layer(self):
        """All that is copied, as an uncompressed archive."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, (source, owner, group) in sorted(self.entries.items()):
                add(archive, name, source, owner, group)
        return made.getvalue()


def add(archive, name, source, owner, group):
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.uid, entry.gid = EPOCH, owner, group
    entry.mode = source.stat().st_mode & 0o7777 if source else 0o755
    if source is None or source.is_dir():
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    elif source.is_file() and not source.is_symlink():
        entry.size = source.stat().st_size
        with source.open("rb") as file:
            archive.addfile(entry, file)
    else:
        raise ValueError(f"{source} is neither a file nor a folder")


class Layout:
    """An image layout: blobs by their digests, in a tar file."""

    def __init__(self):
        self.files = {"oci-layout": encode({"imageLayoutVersion": "1.0.0"})}

    def add_blob(self, kind, data):
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)}

    def write(self, path):
        folders = {"blobs", "blobs/sha256"}
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(folders | self.files.keys()):
                entry = tarfile.TarInfo(name)
                entry.mtime = EPOCH
                if name in folders:
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)
                else:
                    entry.size = len(self.files[name])
                    archive.addfile(entry, io.BytesIO(self.files[name]))


def encode(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


def instructions(text):
    """Lines that are no comments, with those that a backslash continues joined."""
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def build(image, tag):
    layout = Layout()
    layer = image.layer()
    compressed = layout.add_blob("layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
    # One layer holds what all COPY instructions copy, so one line of the history may have it.
    copies = [line for line in image.history if not line["empty_layer"]]
    for line in copies[:-1]:
        line["empty_layer"] = True
    config = layout.add_blob("config.v1+json", encode({
        "created": CREATED, "architecture": "amd64", "os": "linux", "config": image.config, "history": image.history,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }))
    manifest = layout.add_blob("manifest.v1+json", encode({
        "schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": config, "layers": [compressed],
    }))
    named = {**manifest, "platform": {"architecture": "amd64", "os": "linux"}, "annotations": {"org.opencontainers.image.ref.name": tag}}
    layout.files["index.json"] = encode({"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": [named]})
    return layout


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    containerfile, context, tag, archive = sys.argv[1:]
    image = Image(pathlib.Path(context))
    try:
        for line in instructions(pathlib.Path(containerfile).read_text()):
            image.carry_out(line)
        build(image, tag).write(archive)
    except ValueError as error:
        print(f"{containerfile}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
