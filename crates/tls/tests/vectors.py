"""Test vectors of DTLS chunks and of the exporter, made by another implementation: Python's `cryptography` alone, from the RFCs and drafts.

python3 vectors.py writes vectors.json (records, exports) and the certificates of the tests (*.pem). Its output is committed.
"""

import datetime
import hashlib
import hmac
import ipaddress
import json
import os
import struct

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SUITES = {
    "Aes128Gcm": (AESGCM, 16, hashlib.sha256),
    "Aes256Gcm": (AESGCM, 32, hashlib.sha384),
    "ChaCha20Poly1305": (ChaCha20Poly1305, 32, hashlib.sha256),
}


def fixed(label, length):
    """Bytes that look random and are the same in every run."""
    out = b""
    while len(out) < length:
        out += hashlib.sha256(f"{label} {len(out)}".encode()).digest()
    return out[:length]


def mask(suite, sn_key, sample):
    """RFC 9147 section 4.2.3."""
    if suite == "ChaCha20Poly1305":
        # The nonce of this interface is the block counter (4 bytes, little-endian) and the nonce of RFC 8439.
        encryptor = Cipher(algorithms.ChaCha20(sn_key, sample), mode=None).encryptor()
        return encryptor.update(bytes(2))
    return Cipher(algorithms.AES(sn_key), modes.ECB()).encryptor().update(sample)[:2]


def record(suite, key, sn_key, iv, epoch, sequence, content):
    """The encrypted record and the two bytes of the sequence number (RFC 9147 section 4)."""
    aead = SUITES[suite][0](key)
    header = bytes([0b00101000 | epoch & 3]) + struct.pack(">H", sequence & 0xFFFF)
    nonce = bytes(a ^ b for a, b in zip(iv, struct.pack(">IQ", 0, sequence)))
    encrypted = aead.encrypt(nonce, content + b"\x17", header)
    number = bytes(a ^ b for a, b in zip(header[1:], mask(suite, sn_key, encrypted[:16])))
    return number, encrypted


def packet(common, suite, key, sn_key, iv, epoch, sequence, chunks):
    """A protected packet with a checksum of zero (draft-ietf-tsvwg-sctp-dtls-chunk section 4.2)."""
    number, encrypted = record(suite, key, sn_key, iv, epoch, sequence, chunks)
    length = 4 + 1 + 3 + len(encrypted)
    chunk = struct.pack(">BBHBB", 0x41, 0, length, 0, 0b00101000 | epoch & 3) + number + encrypted
    return common + chunk + bytes(-len(chunk) % 4)


def hkdf_expand_label(digest, secret, label, context, length):
    """RFC 8446 section 7.1."""
    full = b"tls13 " + label
    info = struct.pack(">H", length) + bytes([len(full)]) + full + bytes([len(context)]) + context
    out, block, counter = b"", b"", 1
    while len(out) < length:
        block = hmac.new(secret, block + info + bytes([counter]), digest).digest()
        out += block
        counter += 1
    return out[:length]


def export(digest, exporter_secret, context, length):
    """RFC 8446 section 7.5, with the label of draft-porfiri-tsvwg-sctp-dtls-handshake section 5.3."""
    empty = digest(b"").digest()
    label = b"EXPORTER_TLS_FOR_DTLS_IN_SCTP"
    derived = hkdf_expand_label(digest, exporter_secret, label, empty, digest().digest_size)
    return hkdf_expand_label(digest, derived, b"exporter", digest(context).digest(), length)


def record_vectors():
    vectors = []
    for suite, (_, length, _) in SUITES.items():
        key, sn_key, iv = (fixed(f"{suite} {kind}", size) for kind, size in (("key", length), ("sn", length), ("iv", 12)))
        common = struct.pack(">HHI", 40000, 7, 0xDEADBEEF) + bytes(4)
        for epoch, sequence, size in ((3, 0, 4), (3, 1, 20), (4, 65535, 1200), (5, 65536, 64), (6, 0x123456789A, 16384)):
            chunks = fixed(f"{suite} {sequence}", size)
            vectors.append(
                {
                    "suite": suite,
                    "key": key.hex(),
                    "sn_key": sn_key.hex(),
                    "iv": iv.hex(),
                    "epoch": epoch,
                    "sequence": sequence,
                    "chunks": chunks.hex() if size <= 64 else size,
                    "label": f"{suite} {sequence}",
                    "sha256": hashlib.sha256(
                        packet(common, suite, key, sn_key, iv, epoch, sequence, chunks)
                    ).hexdigest(),
                    "packet": packet(common, suite, key, sn_key, iv, epoch, sequence, chunks).hex() if size <= 64 else None,
                }
            )
    return vectors


def export_vectors():
    """The exporter of the handshake draft: contexts, and the keys from an exporter secret as a key log has it."""
    client = bytes.fromhex("8006000a0102030403c0")
    server = bytes.fromhex("8006000b0506070802c000")
    vectors = []
    for suite, (_, length, digest) in SUITES.items():
        secret = fixed(f"{suite} secret", digest().digest_size)
        for direction in (0, 1):
            for role in (0, 1):
                for kind, size in ((0, length), (1, length), (2, 12)):
                    context = bytes([direction, role, kind]) + client + server
                    vectors.append(
                        {
                            "suite": suite,
                            "exporter_secret": secret.hex(),
                            "direction": direction,
                            "role": role,
                            "kind": kind,
                            "client": client.hex(),
                            "server": server.hex(),
                            "context": context.hex(),
                            "export": export(digest, secret, context, size).hex(),
                        }
                    )
    return vectors


def certificates(folder):
    """A certificate authority, certificates of two hosts, one that has expired, one of another authority, and one of each other kind."""
    year = lambda number: datetime.datetime(number, 1, 1)

    def name(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def issue(subject, key, issuer, issuer_key, dates, names=(), authority=False):
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(int.from_bytes(hashlib.sha256(subject.encode()).digest()[:8], "big"))
            .not_valid_before(dates[0])
            .not_valid_after(dates[1])
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            general = [x509.DNSName(n) if not n[0].isdigit() else x509.IPAddress(ipaddress.ip_address(n)) for n in names]
            builder = builder.add_extension(x509.SubjectAlternativeName(general), critical=False)
            usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        hash_of_signature = None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.sign(issuer_key, hash_of_signature)

    def write(file, certificate, key=None):
        with open(os.path.join(folder, f"{file}.pem"), "wb") as out:
            out.write(certificate.public_bytes(serialization.Encoding.PEM))
        if key:
            with open(os.path.join(folder, f"{file}.key"), "wb") as out:
                out.write(
                    key.private_bytes(
                        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                    )
                )

    new_key = lambda: ec.generate_private_key(ec.SECP256R1())
    dates = (year(2020), year(2120))
    authority, other = new_key(), new_key()
    write("authority", issue("authority", authority, "authority", authority, dates, authority=True))
    write("other_authority", issue("other", other, "other", other, dates, authority=True))
    for file, by, by_key, when in (
        ("alice", "authority", authority, dates),
        ("bob", "authority", authority, dates),
        ("expired", "authority", authority, (year(2020), year(2021))),
        ("mallory", "other", other, dates),
    ):
        key = new_key()
        names = ["bob.example", "127.0.0.1"] if file == "bob" else [f"{file}.example"]
        write(file, issue(file, key, by, by_key, when, names), key)
    for file, key in (
        ("rsa", rsa.generate_private_key(65537, 2048)),
        ("p384", ec.generate_private_key(ec.SECP384R1())),
        ("ed25519", ed25519.Ed25519PrivateKey.generate()),
    ):
        write(file, issue(file, key, file, key, dates, [f"{file}.example"]), key)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "vectors.json"), "w") as out:
        json.dump({"records": record_vectors(), "exports": export_vectors()}, out, indent=1)
        out.write("\n")
    folder = os.path.join(here, "certificates")
    os.makedirs(folder, exist_ok=True)
    certificates(folder)
