"""What do the keys and tokens of known providers look like?

Each format starts with a literal by which one pass over a text finds candidates; its pattern
is then tried at that place only. All quantifiers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["FORMATS", "KEY_MATERIAL", "PRIVATE_KEY", "PRIVATE_KEY_CHARACTERS", "PRIVATE_KEY_START", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of secret: `literal` starts it, or stands up to `back` characters after its start.

    Where the pattern has a group, only that group is the secret.
    """

    kind: str
    literal: str
    pattern: re.Pattern[str]
    back: int = 0


PRIVATE_KEY_START = "-----BEGIN "
PRIVATE_KEY_CHARACTERS = 40_000
_HEADER = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_FOOTER = r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_LINES = r"(?:(?:\\n|\r?\n[ \t>]{0,40})[A-Za-z0-9+/=]{16,120}+(?=[\s\\\"']|$)){1,500}"
# With a footer the body may hold anything that is no other header; without, only lines of base64.
PRIVATE_KEY = re.compile(rf"{_HEADER}(?:(?P<body>(?:[^-]++|-(?!----))*+){_FOOTER}|{_LINES})")
# A mention of header and footer is no key: there must be a run of base64 between them.
KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{24}")

_START = r"(?<![A-Za-z0-9_])"
_END = r"(?![A-Za-z0-9_])"


def _formats(kind: str, *shapes: tuple[str, str]) -> Iterable[Format]:
    for literal, rest in shapes:
        yield Format(kind, literal, re.compile(f"{_START}{re.escape(literal)}{rest}{_END}"))


_W = "[A-Za-z0-9]"
_D = "[A-Za-z0-9_-]"

FORMATS: tuple[Format, ...] = (
    *_formats("aws-key", *((start, "[A-Z0-9]{16}") for start in ("AKIA", "ASIA", "ABIA", "ACCA"))),
    *_formats("github-token", *((f"gh{letter}_", f"{_W}{{36,255}}") for letter in "pousr")),
    *_formats("github-token", ("github_pat_", "[A-Za-z0-9_]{50,255}")),
    *_formats(
        "gitlab-token",
        *((f"{start}-", f"{_D}{{20,64}}(?:\\.[a-z0-9.]{{2,40}})?") for start in ("glpat", "gldt", "glrt", "glft")),
        *((f"{start}-", f"{_D}{{20,80}}") for start in ("glsoat", "glptt", "glcbt", "glagent", "gloas", "glimt")),
    ),
    *_formats("slack-token", *((f"xox{letter}-", f"{_D}{{10,250}}") for letter in "abceoprs")),
    *_formats("slack-token", ("xapp-", r"\d-[A-Z0-9]{8,20}-\d{8,20}-[a-z0-9]{32,80}")),
    Format(
        "slack-webhook",
        "hooks.slack.com/",
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/]{20,120})"),
    ),
    *_formats(
        "stripe-key", *((f"{kind}_{mode}_", f"{_W}{{16,250}}") for kind in ("sk", "rk") for mode in ("live", "test"))
    ),
    *_formats("stripe-key", ("whsec_", "[A-Za-z0-9+/=]{24,100}")),
    *_formats("anthropic-key", ("sk-ant-", f"{_D}{{20,250}}")),
    *_formats(
        "openai-key",
        ("sk-proj-", f"{_D}{{20,250}}"),
        ("sk-svcacct-", f"{_D}{{20,250}}"),
        ("sk-admin-", f"{_D}{{20,250}}"),
        ("sk-or-v1-", "[a-f0-9]{64}"),
        ("sk-", f"{_W}{{20,100}}"),
    ),
    *_formats("google-key", ("AIza", f"{_D}{{35}}"), ("GOCSPX-", f"{_D}{{28}}"), ("ya29.", f"{_D}{{20,500}}")),
    *_formats("npm-token", ("npm_", f"{_W}{{36}}")),
    *_formats("pypi-token", ("pypi-AgE", f"{_D}{{50,500}}")),
    Format("azure-key", "AccountKey=", re.compile(r"AccountKey=([A-Za-z0-9+/]{40,100}={0,2})")),
    Format("azure-key", "SharedAccessKey=", re.compile(r"SharedAccessKey=([A-Za-z0-9+/]{40,100}={0,2})")),
    Format("azure-key", "sig=", re.compile(r"(?<=[?&;])sig=([A-Za-z0-9%+/]{40,120}(?:={1,2}|%3D){0,2})")),
    Format("azure-key", "Q~", re.compile(rf"{_START}[A-Za-z0-9_~.]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}{_END}"), back=4),
    *_formats("twilio-key", ("SK", "[0-9a-f]{32}"), ("AC", "[0-9a-f]{32}")),
    *_formats("sendgrid-key", ("SG.", rf"{_D}{{16,32}}\.{_D}{{16,64}}")),
    Format("telegram-token", ":AA", re.compile(rf"(?<![\d:])\d{{8,10}}:AA{_D}{{32,34}}{_END}"), back=10),
    Format("discord-webhook", "/api/webhooks/", re.compile(rf"/api/webhooks/\d{{15,22}}/({_D}{{60,80}})")),
    *_formats("huggingface-token", ("hf_", f"{_W}{{30,50}}"), ("api_org_", f"{_W}{{34}}")),
    *_formats("mailgun-key", ("key-", "[0-9a-f]{32}")),
    *_formats("digitalocean-token", *((f"{start}_v1_", "[a-f0-9]{64}") for start in ("dop", "doo", "dor"))),
    *_formats("shopify-token", *((f"{start}_", "[a-fA-F0-9]{32}") for start in ("shpat", "shpss", "shpca", "shppa"))),
    *_formats("databricks-token", ("dapi", "[a-f0-9]{32}(?:-\\d)?")),
    *_formats("linear-key", ("lin_api_", f"{_W}{{32,64}}")),
    *_formats("notion-token", ("secret_", f"{_W}{{43}}"), ("ntn_", f"{_W}{{40,60}}")),
    *_formats("postman-key", ("PMAK-", "[a-f0-9]{24}-[a-f0-9]{34}")),
    *_formats("newrelic-key", ("NRAK-", "[A-Z0-9]{27}")),
    *_formats("sentry-token", ("sntrys_", "[A-Za-z0-9+/=_]{60,300}"), ("sntryu_", "[a-f0-9]{64}")),
    *_formats("grafana-token", ("glsa_", f"{_W}{{32}}_[a-fA-F0-9]{{8}}"), ("glc_", "[A-Za-z0-9+/=]{32,400}")),
    *_formats("doppler-token", ("dp.pt.", f"{_W}{{40,50}}"), ("dp.st.", r"[A-Za-z0-9_.-]{40,90}")),
    *_formats("vault-token", ("hvs.", f"{_D}{{24,200}}"), ("hvb.", f"{_D}{{24,300}}")),
    *_formats("supabase-key", ("sbp_", "[a-f0-9]{40}"), ("sb_secret_", f"{_D}{{20,80}}")),
    *_formats("groq-key", ("gsk_", f"{_W}{{40,60}}")),
    *_formats("replicate-token", ("r8_", f"{_W}{{37,40}}")),
    *_formats("xai-key", ("xai-", f"{_W}{{60,100}}")),
    *_formats("perplexity-key", ("pplx-", f"{_W}{{40,64}}")),
    *_formats("tavily-key", ("tvly-", f"{_D}{{24,64}}")),
    *_formats("square-token", ("sq0atp-", f"{_D}{{22}}"), ("sq0csp-", f"{_D}{{43}}")),
    *_formats("figma-token", ("figd_", f"{_D}{{36,80}}")),
    *_formats("atlassian-token", ("ATATT3", "[A-Za-z0-9_=-]{60,250}"), ("ATBB", f"{_W}{{32}}")),
    *_formats("rubygems-key", ("rubygems_", "[a-f0-9]{48}")),
    *_formats("docker-token", ("dckr_pat_", f"{_D}{{27}}"), ("dckr_oat_", f"{_D}{{32}}")),
    *_formats("age-key", ("AGE-SECRET-KEY-1", "[A-Z0-9]{58}")),
    *_formats("planetscale-token", ("pscale_tkn_", f"{_D}{{30,64}}"), ("pscale_pw_", f"{_D}{{30,64}}")),
    *_formats("heroku-key", ("HRKU-", f"{_D}{{36,80}}")),
    *_formats("alibaba-key", ("LTAI", f"{_W}{{17,26}}")),
    *_formats("fly-token", ("FlyV1 fm2_", "[A-Za-z0-9+/=,_]{50,2000}"), ("fo1_", f"{_D}{{43}}")),
    *_formats(
        "jwt",
        ("eyJ", rf"{_D}{{8,4000}}\.{_D}{{8,8000}}\.{_D}{{8,2000}}"),
        ("eyJ", rf"{_D}{{8,4000}}(?:\.{_D}{{0,4000}}){{4}}"),
    ),
)
