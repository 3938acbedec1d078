"""The shapes that well-known services give their tokens, by the literal with which each begins."""

from __future__ import annotations

import re


_E = r"(?![0-9A-Za-z]|_[0-9A-Za-z])"
_W = r"[A-Za-z0-9_\-]"
# services by the beginning of their tokens
_SHAPES: dict[str, str] = {
    **dict.fromkeys(("AKIA", "ASIA"), rf"[A-Z]{{4}}[A-Z2-7]{{16}}{_E}"),
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), rf"gh[pousr]_[A-Za-z0-9]{{36,251}}{_E}"),
    "github_pat_": rf"github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}{_E}",
    "glpat-": rf"glpat-{_W}{{20,64}}",
    "gldt-": rf"gldt-{_W}{{20,64}}",
    "glrt-": rf"glrt-{_W}{{20,64}}",
    **dict.fromkeys(
        ("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-"), rf"xox[abeprs]-[0-9A-Za-z\-]{{20,250}}{_E}"
    ),
    "xapp-": rf"xapp-[0-9]-[A-Z0-9]{{8,16}}-[0-9]{{8,16}}-[0-9a-f]{{32,128}}{_E}",
    "hooks.slack.com/services/": r"hooks\.slack\.com/services/[A-Z0-9]{8,14}/[A-Z0-9]{8,14}/[A-Za-z0-9]{20,28}",
    "sk-": rf"sk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{{2,8}}-|or-v1-|None-)?{_W}{{20,220}}{_E}",
    "hf_": rf"hf_[A-Za-z0-9]{{30,40}}{_E}",
    **dict.fromkeys(
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), rf"[sr]k_(?:live|test)_[A-Za-z0-9]{{20,120}}{_E}"
    ),
    "whsec_": rf"whsec_[A-Za-z0-9+/=]{{24,64}}{_E}",
    "AIza": rf"AIza{_W}{{35}}(?!{_W})",
    "GOCSPX-": rf"GOCSPX-{_W}{{28}}(?!{_W})",
    "ya29.": rf"ya29\.{_W}{{30,400}}",
    "npm_": rf"npm_[A-Za-z0-9]{{36}}{_E}",
    "pypi-AgE": rf"pypi-AgE{_W}{{50,1000}}",
    "SG.": rf"SG\.{_W}{{16,32}}\.{_W}{{32,64}}",
    **dict.fromkeys(("dop_v1_", "doo_v1_", "dor_v1_"), rf"do[opr]_v1_[0-9a-f]{{64}}{_E}"),
    **dict.fromkeys(("shpat_", "shpca_", "shppa_", "shpss_"), rf"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}{_E}"),
    "dapi": rf"dapi[0-9a-f]{{32}}(?:-[0-9])?{_E}",
    "gsk_": rf"gsk_[A-Za-z0-9]{{40,64}}{_E}",
    "xai-": rf"xai-[A-Za-z0-9]{{60,100}}{_E}",
    "pplx-": rf"pplx-[A-Za-z0-9]{{40,64}}{_E}",
    "r8_": rf"r8_[A-Za-z0-9]{{36,40}}{_E}",
    "hvs.": rf"hvs\.{_W}{{24,200}}",
    "lin_api_": rf"lin_api_[A-Za-z0-9]{{32,64}}{_E}",
    "ntn_": rf"ntn_[A-Za-z0-9]{{40,60}}{_E}",
    "glsa_": rf"glsa_[A-Za-z0-9]{{32}}_[0-9a-f]{{8}}{_E}",
    "sq0": rf"sq0(?:atp|csp)-{_W}{{22,43}}",
    "ATATT3": rf"ATATT3{_W}{{60,250}}",
    "sntrys_": rf"sntrys_{_W}{{40,300}}",
    "sbp_": rf"sbp_[0-9a-f]{{40}}{_E}",
    "AGE-SECRET-KEY-1": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
}
TOKENS = {
    literal: re.compile(pattern if "." in literal else rf"(?<![0-9A-Za-z])(?<![0-9A-Za-z][_\-]){pattern}")
    for literal, pattern in _SHAPES.items()
}
