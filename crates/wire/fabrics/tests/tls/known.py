#!/usr/bin/env python3
"""Makes tls/known.rs: what keys come to, by an implementation that shares nothing with the one under test."""
import base64, binascii, hmac, struct

RAW = bytes.fromhex("5512DBB6737D0106F65975B773DFB011FFC344BCF442E2DD6D8BC4870B5D5B03")
KEYS = [RAW, RAW + RAW[16:]]
HOST, SUBSYSTEM = b"nqn.psk-test-host", b"nqn.psk-test-subsys"
# What libnvme's own tests (test/psk.c) have: by key, and by whether it is as libnvme did it until 2025.
LIBNVME = {
    (1, False): "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
    (2, False): "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
    (1, True): "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
    (2, True): "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
}


def derive(name, secret, label, context, compat):
    size = {"sha256": 32, "sha384": 48}[name]
    label = b"tls13 " + label
    if compat:
        info = struct.pack("<H", size) + label + context
    else:
        info = struct.pack(">HB", size, len(label)) + label + bytes([len(context)]) + context
    extracted = hmac.new(bytes(size), secret, name).digest()
    return hmac.new(extracted, info + b"\x01", name).digest()


def psk(raw, transform, version, compat):
    number = transform or {32: 1, 48: 2}[len(raw)]
    name = {1: "sha256", 2: "sha384"}[number]
    retained = derive(name, raw, b"HostNQN", HOST, compat) if transform else raw
    identity = b"NVMe%dR%02d %s %s" % (version, number, HOST, SUBSYSTEM)
    context = identity
    if version == 1:
        names = HOST + b" " + SUBSYSTEM + b" NVMe-over-Fabrics"
        digest = base64.b64encode(hmac.new(retained, names, name).digest())
        identity += b" " + digest
        context = b"%02d %s" % (number, digest)
        assert not transform or identity.decode() == LIBNVME[number, compat]
    return identity.decode(), derive(name, retained, b"nvme-tls-psk", context, compat).hex()


rows = []
for raw, transform in [(KEYS[0], 0), (KEYS[1], 0), (KEYS[0], 1), (KEYS[1], 2)]:
    check = binascii.crc32(raw).to_bytes(4, "little")
    text = "NVMeTLSkey-1:%02d:%s:" % (transform, base64.b64encode(raw + check).decode())
    for version in (0, 1):
        for compat in (False, True):
            form = "%d%s" % (version, "-compat" if compat else "")
            rows.append('    [\n        "%s",\n        "%s",\n        "%s",\n        "%s",\n    ],\n' % ((text, form) + psk(raw, transform, version, compat)))
print("//! Made by known.py: keys, forms, identities and pre-shared keys in hexadecimal.\n")
print("/// The keys, and the identities of version 1 where a key is transformed, are those of libnvme's own tests.")
print("pub const KNOWN: [[&str; 4]; %d] = [\n%s];" % (len(rows), "".join(rows)))
