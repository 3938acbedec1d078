"""Made-up keys, tokens and passwords, in the shapes that well-known services and programs give them."""

from __future__ import annotations

import base64
import json
from random import Random


DIGITS = "0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOWER = UPPER.lower()
HEX = "0123456789abcdef"
ALNUM = UPPER + LOWER + DIGITS
BASE64 = ALNUM + "+/"
URL = ALNUM + "_-"


def some(r: Random, alphabet: str, count: int) -> str:
    return "".join(r.choice(alphabet) for _ in range(count))


def mixed(r: Random, alphabet: str, count: int) -> str:
    """With a capital, a small letter and a digit, and a letter or a digit at both ends."""
    while True:
        made = some(r, alphabet, count)
        shares = [any(each in part for each in made) for part in (UPPER, LOWER, DIGITS)]
        if all(shares) and made[0].isalnum() and made[-1].isalnum():
            return made


def password(r: Random) -> str:
    return mixed(r, ALNUM * 2 + "!#%*+-_=?^~", r.randrange(10, 21))


def secret(r: Random, language: str, how: str) -> str:
    """`how`: password, or quoted where = and / may stand, or url where little may."""
    if how == "password":
        return password(r)
    made = [mixed(r, ALNUM, r.randrange(24, 49)), some(r, HEX, r.choice([32, 40, 64])), mixed(r, URL, 43)]
    if how == "quoted":
        made += [password(r), mixed(r, BASE64, 40), mixed(r, BASE64, 43) + "=", mixed(r, BASE64, 22) + "=="]
    return r.choice(made)


def url_password(r: Random, language: str, how: str) -> str:
    encoded = mixed(r, ALNUM, 5) + r.choice(["%40", "%21", "%23", "%2F"]) + mixed(r, ALNUM, 4)
    return r.choice([mixed(r, ALNUM, r.randrange(8, 25)), mixed(r, ALNUM * 2 + "_-!*~", r.randrange(10, 20)), encoded])


def pem_lines(r: Random, start: str, length: int, width: int = 64) -> list[str]:
    body = start + mixed(r, BASE64, length - len(start))
    return [body[at : at + width] for at in range(0, len(body), width)]


def private_key(r: Random, language: str, how: str) -> str:
    """`how`: json for a literal backslash and n between the lines, or a number of spaces to indent them by."""
    kind, start, length = r.choice(
        [
            *[
                ("RSA PRIVATE KEY", "MIIC", 812),
                ("RSA PRIVATE KEY", "MIIE", 1188),
                ("EC PRIVATE KEY", "MHcCAQEE", 164),
            ],
            *[("EC PRIVATE KEY", "MIGkAgEB", 220), ("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjEAAAAA", 340)],
            *[("PRIVATE KEY", "MC4CAQAwBQYDK2Vw", 64), ("PRIVATE KEY", "MIGHAgEAMBMGByqGSM49", 184)],
            *[
                ("ENCRYPTED PRIVATE KEY", "MIIBvTBXBgkqhkiG9w0BBQ0w", 592),
                ("ENCRYPTED PRIVATE KEY", "MIHsMFcGCSqGSIb3DQEFDTBK", 320),
            ],
            *[("PGP PRIVATE KEY BLOCK", "lFgEZ", 424)],
        ]
    )
    body = pem_lines(r, start, length, 70 if kind.startswith("OPENSSH") else 64)
    body[-1] += "=" * (-len(body[-1]) % 4)
    if kind.startswith("PGP"):
        body = [*r.choice([[], ["Version: GnuPG v2"], ["Comment: made up"]]), "", *body, "=" + mixed(r, BASE64, 4)]
    elif kind.startswith("RSA") and r.randrange(4) == 0:
        body = ["Proc-Type: 4,ENCRYPTED", f"DEK-Info: AES-128-CBC,{some(r, HEX, 32).upper()}", "", *body]
    lines = [f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"]
    return ("\\n" if how == "json" else "\n" + " " * int(how or 0)).join(lines)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def jwt(r: Random, language: str, how: str) -> str:
    alg, size = r.choice([("HS256", 43), ("HS256", 43), ("HS512", 86), ("RS256", 342), ("ES256", 86), ("EdDSA", 86)])
    header = {"alg": alg, "typ": "JWT"} if r.randrange(2) else {"typ": "JWT", "alg": alg}
    if r.randrange(3) == 0:
        header["kid"] = some(r, HEX, 8)
    since = r.randrange(1_690_000_000, 1_760_000_000)
    claims = {"sub": str(r.randrange(10**6, 10**10)), "iat": since, "exp": since + 3600}
    claims |= r.choice([{}, {"role": "admin"}, {"scope": "read write"}, {"iss": "https://auth.example.com"}])
    return ".".join([part(header), part(claims), mixed(r, URL, size)])


def token(r: Random, language: str, how: str) -> str:
    """`how` names a service."""
    services = {
        "aws": lambda: r.choice(["AKIA", "ASIA"]) + some(r, UPPER + "234567", 16),
        "github": lambda: r.choice(["ghp_", "gho_", "ghs_"]) + mixed(r, ALNUM, 36),
        "github_pat": lambda: f"github_pat_{mixed(r, ALNUM, 22)}_{mixed(r, ALNUM, 59)}",
        "gitlab": lambda: "glpat-" + mixed(r, URL, 20),
        "slack_bot": lambda: f"xoxb-{some(r, DIGITS, 12)}-{some(r, DIGITS, 13)}-{mixed(r, ALNUM, 24)}",
        "slack_user": lambda: "-".join(["xoxp", *[some(r, DIGITS, 12) for _ in range(3)], some(r, HEX, 32)]),
        "slack_app": lambda: f"xapp-1-A{some(r, UPPER + DIGITS, 10)}-{some(r, DIGITS, 13)}-{some(r, HEX, 64)}",
        "openai": lambda: f"sk-{mixed(r, ALNUM, 20)}T3BlbkFJ{mixed(r, ALNUM, 20)}",
        "openai_project": lambda: f"sk-proj-{mixed(r, URL, 74)}T3BlbkFJ{mixed(r, URL, 74)}",
        "anthropic": lambda: f"sk-ant-api03-{mixed(r, URL, 93)}AA",
        "huggingface": lambda: "hf_" + mixed(r, ALNUM, 34),
        "stripe": lambda: r.choice(["sk_live_", "rk_live_"]) + mixed(r, ALNUM, r.choice([24, 99])),
        "google": lambda: "AIzaSy" + mixed(r, URL, 33),
        "npm": lambda: "npm_" + mixed(r, ALNUM, 36),
        "pypi": lambda: "pypi-AgEIcHlwaS5vcmc" + mixed(r, URL, r.randrange(130, 160)),
        "sendgrid": lambda: f"SG.{mixed(r, URL, 22)}.{mixed(r, URL, 43)}",
        "telegram": lambda: f"{r.randrange(10**8, 10**10)}:AA{mixed(r, URL, 33)}",
        "digitalocean": lambda: "dop_v1_" + some(r, HEX, 64),
        "shopify": lambda: "shpat_" + some(r, HEX, 32),
        "databricks": lambda: "dapi" + some(r, HEX, 32),
        "discord": lambda: f"MT{mixed(r, ALNUM, 24)}.G{mixed(r, URL, 5)}.{mixed(r, URL, 38)}",
        "twilio": lambda: "SK" + some(r, HEX, 32),
    }
    anywhere = [name for name in services if name != "twilio"]  # two letters and a hash: only where it is named
    return services[how or r.choice(anywhere)]()
