#!/usr/bin/env python3
"""Makes known.rs: what every hash and group come to, by an implementation that shares nothing with the one under test."""
import base64, binascii, hashlib, hmac
from decimal import Decimal, getcontext

getcontext().prec = 2700
E = Decimal(1).exp()
X = {2048: 560316, 3072: 2625351, 4096: 5736041, 6144: 15705020, 8192: 10965728}
GROUPS = [("Null", 0, 0, 0), ("Ffdhe2048", 1, 2048, 32), ("Ffdhe3072", 2, 3072, 40), ("Ffdhe4096", 3, 4096, 48),
          ("Ffdhe6144", 4, 6144, 56), ("Ffdhe8192", 5, 8192, 56)]
HASHES = [("Sha256", 1, "sha256"), ("Sha384", 2, "sha384"), ("Sha512", 3, "sha512")]
HOST, SUBSYSTEM = b"nqn.2014-08.org.nvmexpress:uuid:host", b"nqn.2026-11.example:disk"
T_ID = 0x1234


def prime(bits):
    """RFC 7919, appendix A."""
    e = int((E * Decimal(2) ** (bits - 130)).to_integral_value(rounding="ROUND_FLOOR"))
    return 2**bits - 2 ** (bits - 64) + (e + X[bits]) * 2**64 - 1


def stream(label, count):
    return hashlib.shake_256(label).digest(count)


def entropy(label):
    return stream(b"entropy of " + label, 132)


def secret(label, transform):
    return stream(b"secret of " + label, {0: 48, 1: 32, 2: 48, 3: 64}[transform])


def text(raw, transform):
    check = binascii.crc32(raw).to_bytes(4, "little")
    return "DHHC-1:%02x:%s:" % (transform, base64.b64encode(raw + check).decode())


def key(raw, transform, owner):
    name = {1: "sha256", 2: "sha384", 3: "sha512"}.get(transform)
    return hmac.new(raw, owner + b"NVMe-over-Fabrics", name).digest() if name else raw


def response(name, key, challenge, shared, sequence, label, first, second):
    if shared:
        challenge = hmac.new(hashlib.new(name, shared).digest(), challenge, name).digest()
    sequence = sequence.to_bytes(4, "little")
    said = challenge + sequence + T_ID.to_bytes(2, "little") + b"\0" + label + first + b"\0" + second
    return hmac.new(key, said, name).digest()


def head(id, *rest):
    return bytes([1, id, 0, 0]) + T_ID.to_bytes(2, "little") + b"".join(rest)


def exchange(hash_id, name, group_id, bits, exponent_bytes, transform, entropies):
    controller, host = entropies
    n = hashlib.new(name).digest_size
    c1, c2 = controller[:n], host[:n]
    s1, s2 = (int.from_bytes(e[128:], "little") for e in (controller, host))
    shared, values = b"", [b"", b""]
    if bits:
        p = prime(bits)
        x, y = (int.from_bytes(e[64 : 64 + exponent_bytes], "big") for e in (controller, host))
        values = [pow(2, e, p).to_bytes(bits // 8, "big") for e in (x, y)]
        shared = pow(2, x * y, p).to_bytes(bits // 8, "big")
    host_key = key(secret(b"host", transform), transform, HOST)
    controller_key = key(secret(b"controller", transform), transform, SUBSYSTEM)
    r1 = response(name, host_key, c1, shared, s1, b"HostHost", HOST, SUBSYSTEM)
    r2 = response(name, controller_key, c2, shared, s2, b"Controller", SUBSYSTEM, HOST)
    size = (bits // 8).to_bytes(2, "little")
    challenge = head(1, bytes([n, 0, hash_id, group_id]), size, controller[128:], c1, values[0])
    reply = head(2, bytes([n, 0, 1, 0]), size, host[128:], r1, c2, values[1])
    success = head(3, bytes([n, 0, 1]), bytes(7), r2)
    return [challenge, reply, success], shared


def short_secret():
    """Entropy of a host with which the secret agreed on in ffdhe2048 begins with a byte of 0."""
    controller, p = entropy(b"controller"), prime(2048)
    x = int.from_bytes(controller[64:96], "big")
    for at in range(10000):
        host = entropy(b"host %d" % at)
        y = int.from_bytes(host[64:96], "big")
        if pow(2, x * y, p) >> 2040 == 0:
            return at
    raise SystemExit("none found")


def row(hash, group, transform, host_label):
    entropies = entropy(b"controller"), entropy(host_label)
    messages, _ = exchange(hash[1], hash[2], group[1], group[2], group[3], transform, entropies)
    digests = "".join('\n            "%s",' % hashlib.sha256(m).hexdigest() for m in messages)
    return (
        "    Known {\n        hash: AuthHash::%s,\n        group: DhGroup::%s,\n        transform: %d,\n"
        '        host_entropy: "%s",\n        messages: [%s\n        ],\n    },\n'
        % (hash[0], group[0], transform, host_label.decode(), digests)
    )


rows = [row(h, g, (i + 1) % 4, b"host") for i, h in enumerate(HASHES) for g in GROUPS]
rows.append(row(HASHES[0], GROUPS[1], 0, b"host %d" % short_secret()))
labels = sorted({b"controller", b"host", b"host %d" % short_secret()})
print("//! Made by known.py: SHA-256 of each message.\n")
print("use byway_fabrics::authentication::{AuthHash, DhGroup};\n\nuse crate::Known;\n")
print("/// The last row's secret of the exchange begins with a byte of 0.\npub const KNOWN: [Known; %d] = [\n%s];\n" % (len(rows), "".join(rows)))
print("/// Bytes that were random, in hexadecimal, by their name.\npub const ENTROPY: [(&str, &str); %d] = [" % len(labels))
for label in labels:
    print('    (\n        "%s",\n        "%s",\n    ),' % (label.decode(), entropy(label).hex()))
print("];\n\n/// Secrets of host and controller, by their hash.\npub const SECRETS: [[&str; 2]; 4] = [")
for t in range(4):
    print("    [\n%s    ]," % "".join('        "%s",\n' % text(secret(w, t), t) for w in (b"host", b"controller")))
print("];")
