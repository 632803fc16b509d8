"""What do the keys and tokens of known providers look like?

Each format has a literal by which one pass over a text finds candidates; its pattern is then tried only
at that position. All quantifiers are bounded, so the time is proportional to the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from spec_kit_memory.core.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a secret: `literal` is at its start, or `least_back` to `back` characters after its start.

    If the pattern has groups, only those are the secret.
    """

    kind: str
    literal: str
    pattern: Pattern
    back: int = 0
    least_back: int = 0


# The start of a word, also after an escape: `%22ghp_`, `\nghp_`, `=3Dghp_` (quoted-printable).
_START = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})|(?<==3D))"
)
_END = r"(?![A-Za-z0-9])"
_W = "[A-Za-z0-9]"
_D = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_UUID = "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_B58 = "[1-9A-HJ-NP-Za-km-z]"


def _plain(kind: str, *shapes: tuple[str, str]) -> Iterable[Format]:
    """Formats with a prefix that no text contains by chance: also found inside a word (`TOKEN_ghp_…`)."""
    for literal, rest in shapes:
        yield Format(kind, literal, Pattern(re.escape(literal) + rest))


def _word(kind: str, *shapes: tuple[str, str]) -> Iterable[Format]:
    """Formats with a prefix that longer words may contain, such as `sk-` in `risk-`: must be a whole word."""
    for literal, rest in shapes:
        yield Format(kind, literal, Pattern(f"{_START}{re.escape(literal)}{rest}{_END}"))


def _inside(kind: str, literal: str, pattern: str, *, back: int = 0) -> Format:
    return Format(kind, literal, Pattern(pattern), back)


_CODE_HOSTS = (
    *_plain("github-token", *((f"gh{letter}_", f"{_W}{{36,255}}") for letter in "pousr")),
    *_plain("github-token", ("github_pat_", "[A-Za-z0-9_]{50,255}")),
    *_plain(
        "gitlab-token",
        *((f"{start}-", f"{_D}{{20,64}}(?:\\.[a-z0-9.]{{2,40}})?") for start in ("glpat", "gldt", "glrt", "glft")),
        *((f"{start}-", f"{_D}{{20,80}}") for start in ("glsoat", "glptt", "glcbt", "glagent", "gloas", "glimt")),
        ("GR1348941", f"{_D}{{20}}"),
    ),
    *_plain("atlassian-token", ("ATATT3", "[A-Za-z0-9_=-]{60,250}"), ("ATCTT3", "[A-Za-z0-9_=-]{60,250}")),
    *_word("atlassian-token", ("ATBB", f"{_W}{{32}}")),
    *_plain("spec-kit-memory-token", ("skmt_", f"{_D}{{43}}")),  # of our own team server
    *_plain("npm-token", ("npm_", f"{_W}{{36}}")),
    *_plain("pypi-token", ("pypi-AgE", f"{_D}{{50,500}}")),
    *_plain("rubygems-key", ("rubygems_", f"{_HEX}{{48}}")),
    *_word("crates-token", ("cio", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{32}}")),
    *_word("nuget-key", ("oy2", "[a-z0-9]{43}")),
    *_plain("docker-token", ("dckr_pat_", f"{_D}{{27}}"), ("dckr_oat_", f"{_D}{{32}}")),
    *_word("artifactory-token", ("AKC", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{60,80}}"), ("cmVmdGtu", f"{_W}{{50,70}}")),
    *_word("artifactory-token", ("AP", f"[0-9A-F]{_W}{{60,80}}")),
    *_plain("sonar-token", *((f"sq{letter}_", f"{_HEX}{{40}}") for letter in "pua")),
    *_plain("circleci-token", ("CCIPAT_", f"{_W}{{10,40}}_{_HEX}{{40}}"), ("CCIPRJ_", f"{_W}{{10,40}}_{_HEX}{{40}}")),
    *_plain("buildkite-token", ("bkua_", f"{_HEX}{{40}}")),
    *_plain("postman-key", ("PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}")),
    *_plain("rdme-key", ("rdme_", "[a-z0-9]{70}")),
)

_CLOUDS = (
    *(
        # The secret is often written next to the id.
        Format(
            "aws-key",
            start,
            Pattern(
                rf"{_START}({start}[A-Z0-9]{{16}}){_END}(?:[\s\"',:;/|]{{1,6}}([A-Za-z0-9+/]{{40}})(?![A-Za-z0-9+/=]))?"
            ),
        )
        for start in ("AKIA", "ASIA", "ABIA", "ACCA")
    ),
    *_word("aws-key", ("ABSK", "[A-Za-z0-9+/]{100,160}={0,2}")),
    *_plain(
        "aws-token", ("IQoJb3JpZ2lu", "[A-Za-z0-9+/%]{100,1500}={0,2}"), ("FwoGZXIvYXdz", "[A-Za-z0-9+/%]{100,1500}=*")
    ),
    _inside("aws-signature", "X-Amz-Signature", r"X-Amz-Signature(?:=|%3D|[\"']?:\s*[\"']?)([0-9a-f]{40,64})"),
    _inside("aws-token", "X-Amz-Security-Token", r"X-Amz-Security-Token(?:=|%3D|:\s*)([A-Za-z0-9%+/=_-]{40,2000})"),
    _inside("google-signature", "X-Goog-Signature", r"X-Goog-Signature(?:=|%3D)([0-9a-f]{64,1024})"),
    *_plain("google-key", ("GOCSPX-", f"{_D}{{28}}"), ("ya29.", f"{_D}{{20,500}}")),
    *_word("google-key", ("AIza", f"{_D}{{35}}")),
    *_word("google-token", ("1//0", f"{_D}{{40,120}}")),
    _inside("firebase-key", ":APA91b", rf"{_START}AAAA{_D}{{7}}:APA91b{_D}{{100,180}}", back=11),
    _inside("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{40,100}={0,2})"),
    _inside("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{40,100}={0,2})"),
    _inside("azure-key", "sig=", r"(?<=[?&;])sig=([A-Za-z0-9%+/_-]{40,120}(?:={1,2}|%3D){0,2})"),
    _inside("azure-key", "Q~", rf"{_START}[A-Za-z0-9_~.]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}{_END}", back=4),
    Format("azure-key", "AZDO", Pattern(rf"{_START}{_W}{{76}}AZDO{_W}{{4}}{_END}"), back=76, least_back=76),
    *_word("alibaba-key", ("LTAI", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{17,26}}")),
    *_word("tencent-key", ("AKID", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{28,40}}")),
    *_word("yandex-key", ("AQVN", f"(?=[A-Za-z_-]{{0,60}}\\d){_D}{{35,40}}")),
    *_plain("digitalocean-token", *((f"{start}_v1_", f"{_HEX}{{64}}") for start in ("dop", "doo", "dor"))),
    *_plain("heroku-key", ("HRKU-", f"{_D}{{36,80}}")),
    *_plain("fly-token", ("fm2_", "[A-Za-z0-9+/=,_]{50,2000}"), ("FlyV1 fm2_", "[A-Za-z0-9+/=,_]{50,2000}")),
    *_word("fly-token", ("fo1_", f"{_D}{{43}}")),
    *_plain("netlify-token", *((f"nf{letter}_", f"{_W}{{36,40}}") for letter in "pcou")),
    *_plain("supabase-key", ("sbp_", f"{_HEX}{{40}}"), ("sb_secret_", f"{_D}{{20,80}}")),
    *_plain("planetscale-token", *((f"pscale_{what}_", f"{_D}{{30,64}}") for what in ("tkn", "pw", "oauth"))),
    *_word("neon-key", ("napi_", "[a-z0-9]{40,70}")),
    *_word("databricks-token", ("dapi", f"{_HEX}{{32}}(?:-\\d)?")),
    _inside("terraform-token", ".atlasv1.", rf"{_START}{_W}{{14}}\.atlasv1\.{_D}{{60,70}}", back=14),
    *_plain("vault-token", ("hvs.", f"{_D}{{24,200}}"), ("hvb.", f"{_D}{{24,300}}"), ("hvr.", f"{_D}{{24,300}}")),
    *_word("vault-token", ("s.", f"(?=[A-Za-z]{{0,12}}\\d)(?=[a-z0-9]{{0,20}}[A-Z]){_W}{{24}}")),
    *_word("pulumi-token", ("pul-", f"{_HEX}{{40}}")),
    *_plain("doppler-token", *((f"dp.{what}.", "[A-Za-z0-9_.-]{40,90}") for what in ("pt", "st", "ct", "sa", "scim"))),
    *_plain("1password-token", ("ops_eyJ", "[A-Za-z0-9+/=_-]{100,1500}")),
    *_plain(
        "tailscale-key", ("tskey-", "(?:auth|client|api|scim|webhook)-[A-Za-z0-9]{8,20}(?:CNTRL)?-[A-Za-z0-9]{20,60}")
    ),
    *_plain("age-key", ("AGE-SECRET-KEY-1", "[A-Z0-9]{58}")),
    *_word("nostr-key", ("nsec1", "[023456789ac-hj-np-z]{58}")),
    *_word("jetbrains-token", ("perm:", "[A-Za-z0-9+/=_-]{4,80}[.][A-Za-z0-9+/=_-]{4,80}[.][A-Za-z0-9]{20,80}")),
    *_plain(
        "dynatrace-token", ("dt0c01.", "[A-Z0-9]{24}[.][A-Z0-9]{64}"), ("dt0s16.", "[A-Z0-9]{8,24}[.][A-Z0-9]{64}")
    ),
    *_word("backblaze-key", *((f"K00{digit}", "(?=[A-Za-z+/]{0,30}\\d)[A-Za-z0-9+/]{27}") for digit in range(1, 6))),
    *_plain("cloudflare-key", ("v1.0-", f"{_HEX}{{24}}-{_HEX}{{100,160}}")),
)

_MODELS = (
    *_plain("anthropic-key", ("sk-ant-", f"{_D}{{20,250}}")),
    *_plain(
        "openai-key",
        ("sk-proj-", f"{_D}{{20,250}}"),
        ("sk-svcacct-", f"{_D}{{20,250}}"),
        ("sk-admin-", f"{_D}{{20,250}}"),
    ),
    *_plain("openrouter-key", ("sk-or-v1-", f"{_HEX}{{64}}")),
    *_plain("langfuse-key", ("sk-lf-", _UUID)),
    *_word("openai-key", ("sk-", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{20,100}}")),
    *_word("huggingface-token", ("hf_", f"{_W}{{30,50}}"), ("api_org_", f"{_W}{{34}}")),
    *_plain("groq-key", ("gsk_", f"{_W}{{40,60}}")),
    *_word("replicate-token", ("r8_", f"{_W}{{37,40}}")),
    *_word("xai-key", ("xai-", f"{_W}{{60,100}}")),
    *_word("perplexity-key", ("pplx-", f"{_W}{{40,64}}")),
    *_plain("tavily-key", ("tvly-", f"{_D}{{24,64}}")),
    *_plain("nvidia-key", ("nvapi-", f"{_D}{{50,80}}")),
    *_plain("langsmith-key", ("lsv2_pt_", f"{_HEX}{{32}}_{_HEX}{{10}}"), ("lsv2_sk_", f"{_HEX}{{32}}_{_HEX}{{10}}")),
    *_plain("pinecone-key", ("pcsk_", "[A-Za-z0-9_]{40,90}")),
    *_word("firecrawl-key", ("fc-", f"{_HEX}{{32}}")),
    *_word("jina-key", ("jina_", f"{_D}{{40,80}}")),
    *_word("e2b-key", ("e2b_", f"{_HEX}{{40}}")),
    *_word("cerebras-key", ("csk-", "[a-z0-9]{40,60}")),
    *_word("fireworks-key", ("fw_", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{22,40}}")),
    *_word("elevenlabs-key", ("sk_", f"{_HEX}{{48}}")),
)

_CHATS = (
    *_plain("slack-token", *((f"xox{letter}-", f"{_D}{{10,250}}") for letter in "abceoprs")),
    *_plain(
        "slack-token", ("xoxe.xox", f"[bp]-{_D}{{20,250}}"), ("xapp-", r"\d-[A-Z0-9]{8,20}-\d{8,20}-[a-z0-9]{32,80}")
    ),
    _inside(
        "slack-webhook",
        "hooks.slack",
        r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/]{20,120})",
    ),
    _inside("discord-webhook", "/api/webhooks/", rf"/api/webhooks/\d{{15,22}}/({_D}{{60,80}})"),
    _inside(
        "teams-webhook", "/webhookb2/", r"/webhookb2/([0-9a-f@/A-Z-]{36,80}/IncomingWebhook/[A-Za-z0-9/-]{32,200})"
    ),
    _inside(
        "teams-webhook",
        "office.com/webhook/",
        r"office\.com/webhook/([0-9a-f@/A-Z-]{36,80}/IncomingWebhook/[A-Za-z0-9/-]{32,200})",
    ),
    _inside(
        "google-chat-webhook",
        "chat.googleapis.com/",
        rf"chat\.googleapis\.com/[^\s\"'<>]{{1,200}}?[&?]token=({_D}{{30,80}}(?:%3D)?)",
    ),
    _inside("mattermost-webhook", "/hooks/", rf"/hooks/([a-z0-9]{{26}}){_END}"),
    _inside("zapier-webhook", "/hooks/catch/", rf"/hooks/catch/\d{{4,12}}/({_W}{{6,20}})"),
    _inside("ifttt-webhook", "/with/key/", rf"/with/key/({_D}{{20,64}})"),
    *(
        Format("discord-token", f"{first}", Pattern(rf"{_START}{first}{_D}{{20,30}}\.{_D}{{6}}\.{_D}{{27,42}}{_END}"))
        for first in (
            "MT",
            "MD",
            "Mj",
            "Mz",
            "NT",
            "ND",
            "Nj",
            "Nz",
            "OD",
            "OT",
            "MQ",
            "Mg",
            "Mw",
            "NA",
            "NQ",
            "Ng",
            "Nw",
            "OA",
            "OQ",
        )
    ),
    _inside(
        "telegram-token",
        ":AA",
        rf"(?:(?<![\d:])|(?<=%[0-9A-F]{{2}}))\d{{8,10}}:AA{_D}{{32,34}}(?![A-Za-z0-9_-])",
        back=10,
    ),
    *_plain("linear-key", ("lin_api_", f"{_W}{{32,64}}"), ("lin_oauth_", f"{_W}{{40,80}}")),
    *_word("notion-token", ("secret_", f"{_W}{{43}}"), ("ntn_", f"{_W}{{40,60}}")),
    *_word("airtable-token", ("pat", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{14}}\\.{_HEX}{{64}}")),
    *_word("asana-token", *((f"{number}/", f"\\d{{13,20}}(?:/\\d{{13,20}})?:{_HEX}{{32}}") for number in "012")),
    *_plain("figma-token", ("figd_", f"{_D}{{36,80}}")),
    *_plain("contentful-token", ("CFPAT-", f"{_D}{{40,60}}")),
    *_word("typeform-token", ("tfp_", f"{_D}{{40,80}}")),
    *_word("hubspot-token", ("pat-", f"(?:na|eu|ap)\\d-{_UUID}")),
    *_word("dropbox-token", ("sl.", f"(?:u\\.)?(?=[A-Za-z_-]{{0,60}}\\d){_D}{{120,1500}}")),
    *_word("facebook-token", ("EAA", f"(?=[A-Za-z]{{0,60}}\\d){_W}{{80,400}}")),
    _inside("twitter-token", "A" * 21, rf"(?<![A-Za-z0-9])A{{19,24}}{_W}{{10,40}}%3D{_W}{{40,60}}"),
    _inside("okta-token", "SSWS", rf"SSWS[ \t]{{1,4}}(00{_D}{{40}})"),
)

_SERVICES = (
    *_plain(
        "stripe-key", *((f"{kind}_{mode}_", f"{_W}{{16,250}}") for kind in ("sk", "rk") for mode in ("live", "test"))
    ),
    *_plain("stripe-key", ("whsec_", "[A-Za-z0-9+/=]{24,100}")),
    *_plain("square-token", ("sq0atp-", f"{_D}{{22}}"), ("sq0csp-", f"{_D}{{43}}")),
    *_word("square-token", ("EAAA", f"(?=[A-Za-z_-]{{0,60}}\\d){_D}{{60}}")),
    *_plain("braintree-token", ("access_token$", rf"(?:production|sandbox)\$[a-z0-9]{{16}}\${_HEX}{{32}}")),
    *_plain("plaid-token", *((f"access-{where}-", _UUID) for where in ("production", "sandbox", "development"))),
    *_word("razorpay-key", ("rzp_live_", f"{_W}{{14}}"), ("rzp_test_", f"{_W}{{14}}")),
    *_plain("flutterwave-key", ("FLWSECK-", f"{_HEX}{{32}}-X"), ("FLWSECK_TEST-", f"{_HEX}{{32}}-X")),
    *_plain("shopify-token", *((f"{start}_", "[a-fA-F0-9]{32}") for start in ("shpat", "shpss", "shpca", "shppa"))),
    *(
        Format(
            "twilio-key",
            start,
            Pattern(rf"{_START}({start}{_HEX}{{32}}){_END}(?:[\"'],\s{{0,4}}[\"']({_W}{{32}})[\"'])?"),
        )
        for start in ("SK", "AC")
    ),
    *_plain("sendgrid-key", ("SG.", rf"{_D}{{16,32}}\.{_D}{{16,64}}")),
    *_word("mailgun-key", ("key-", f"{_HEX}{{32}}")),
    _inside("mailchimp-key", "-us", rf"{_START}{_HEX}{{32}}-us\d{{1,2}}{_END}", back=32),
    *_plain("brevo-key", ("xkeysib-", f"{_HEX}{{64}}-{_W}{{16}}"), ("xsmtpsib-", f"{_HEX}{{64}}-{_W}{{16}}")),
    *_word("resend-key", ("re_", f"{_W}{{8}}_{_W}{{20,30}}")),
    *_plain("newrelic-key", ("NRAK-", "[A-Z0-9]{27}"), ("NRII-", f"{_D}{{32}}"), ("NRJS-", f"{_HEX}{{19}}")),
    *_plain("sentry-token", ("sntrys_", "[A-Za-z0-9+/=_]{60,300}"), ("sntryu_", f"{_HEX}{{64}}")),
    *_plain("grafana-token", ("glsa_", f"{_W}{{32}}_[a-fA-F0-9]{{8}}"), ("glc_", "[A-Za-z0-9+/=]{32,400}")),
    *_plain("honeycomb-key", ("hcaik_", "[a-z0-9]{58,62}"), ("hcamk_", "[a-z0-9]{58,62}")),
    *_word("launchdarkly-key", ("sdk-", _UUID), ("api-", _UUID)),
    _inside("mapbox-token", "sk.eyJ", rf"{_START}sk\.eyJ{_D}{{40,120}}\.{_D}{{20,30}}"),
    *_word("easypost-key", ("EZAK", f"{_W}{{54}}"), ("EZTK", f"{_W}{{54}}")),
    *_plain("shippo-token", ("shippo_live_", f"{_HEX}{{40}}"), ("shippo_test_", f"{_HEX}{{40}}")),
    *_word("prefect-key", ("pnu_", f"{_W}{{36}}"), ("pnb_", f"{_W}{{36}}")),
    *_word("adafruit-key", ("aio_", f"{_W}{{28}}")),
    *_word("duffel-token", ("duffel_", f"(?:live|test)_{_D}{{43}}")),
    _inside("connection-string", "thin:", r"thin:[\w$]{1,40}/([^\s@/\"']{3,100})@"),
    _inside("snmp-community", "snmp-server community ", r"snmp-server community ([^\s\"']{4,60})"),
    _inside("alchemy-key", ".alchemy.com/", rf"\.alchemy\.com/(?:v2|nft/v3)/({_D}{{24,64}})"),
    _inside("infura-key", ".infura.io/", rf"\.infura\.io/(?:ws/)?v3/({_HEX}{{32}})"),
    _inside("quicknode-key", ".quiknode.pro/", rf"[.]quiknode[.]pro/({_HEX}{{32,64}})"),
    *_plain("sui-key", ("suiprivkey1", "[02-9ac-hj-np-z]{50,64}")),
    *_plain("minisign-key", ("RWRTY0Iy", "[A-Za-z0-9+/]{100,300}={0,2}")),
    _inside("jenkins-secret", "{AQAAABAAAA", r"\{(AQAAABAAAA[A-Za-z0-9+/]{20,2000}={0,2})\}"),
    _inside("wifi-key", "WIFI:", r"WIFI:(?:[A-OQ-Z]:(?:[^;\\\n]|\\.){0,100};){0,6}P:((?:[^;\\\n<]|\\.){4,63});"),
    *(_inside("ipsec-key", f': {kind} "', rf': {kind} "([^"\n]{{4,200}})"') for kind in ("PSK", "EAP", "XAUTH")),
    *_word("bitcoin-key", ("xprv", f"{_B58}{{90,120}}"), ("yprv", f"{_B58}{{90,120}}"), ("zprv", f"{_B58}{{90,120}}")),
)

_DOLLAR = r"\$\$?"  # Docker Compose escapes `$` as `$$`
_HASHES = (
    _inside("password-hash", "$2", rf"{_DOLLAR}2[abxy]?{_DOLLAR}\d\d{_DOLLAR}[A-Za-z0-9./]{{53}}"),
    _inside(
        "password-hash",
        "$argon2",
        rf"{_DOLLAR}argon2(?:id|i|d){_DOLLAR}[A-Za-z0-9=,$]{{4,60}}\$[A-Za-z0-9+/]{{8,90}}{_DOLLAR}[A-Za-z0-9+/]{{16,180}}=?=?",
    ),
    *(
        _inside(
            "password-hash",
            f"${name}$",
            rf"{_DOLLAR}{name}{_DOLLAR}(?:rounds=\d{{1,9}}{_DOLLAR})?[A-Za-z0-9./=,]{{1,64}}\$[A-Za-z0-9./$]{{20,150}}",
        )
        for name in ("1", "5", "6", "7", "y", "gy", "apr1", "scrypt")
    ),
    *(
        _inside(
            "password-hash",
            start,
            rf"{re.escape(start)}[A-Za-z0-9:_]{{0,40}}(?:\$[A-Za-z0-9./+=-]{{4,64}}){{1,2}}\$[A-Za-z0-9./+=-]{{20,200}}",
        )
        for start in ("pbkdf2:", "scrypt:", "pbkdf2_sha", "$pbkdf2-sha", "bcrypt_sha256$")
    ),
    _inside("password-hash", "{S", r"\{SS?HA(?:256|384|512)?\}[A-Za-z0-9+/]{24,120}={0,2}"),
)

_JWT_PART = f"{_D}{{8,1500}}+"
_JWT = (
    _inside(
        "jwt",
        "eyJ",
        rf"(?:(?<![A-Za-z0-9_.-])|(?<=[A-Z][A-Z]_)|(?<=%[0-9A-F]{{2}})|(?<=\\[nrt]))eyJ{_JWT_PART}\.{_D}{{8,8000}}+\.{_D}{{8,2000}}",
    ),
    _inside("jwt", "eyJ", rf"(?:(?<![A-Za-z0-9_.-])|(?<=[A-Z][A-Z]_))eyJ{_JWT_PART}(?:\.{_D}{{0,4000}}+){{4}}"),
)

FORMATS: tuple[Format, ...] = (*_CODE_HOSTS, *_CLOUDS, *_MODELS, *_CHATS, *_SERVICES, *_HASHES, *_JWT)
