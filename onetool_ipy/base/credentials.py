"""Whether a name is likely that of a credential: `X-Api-Key`, `access_token`, `userPasswords`,
`contraseña`.

An import hides the values of such names, and a form with such a field is refused. Words are
compared without case, accents and invisible characters. The guess errs on the safe side: a harmless
value that is treated as a secret costs its user a line in secrets.yaml, while a secret that is not
recognised would be stored in plain text.
"""

from __future__ import annotations

import re
import unicodedata

_BREAKS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_A-Za-z]+")
_LONGEST = 300


def _plain(text: str) -> str:
    """The text without accents and invisible characters; wide and styled letters become plain
    ones."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(
        char for char in decomposed if unicodedata.category(char) not in ("Cc", "Cf", "Mc", "Mn")
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(_plain(text).casefold().split())


_ANYWHERE = _words("""
    password passwd passphrase passcode passkey apikey apitoken appsecret credential authorization
    setcookie accesskey privatekey secretkey signingkey encryptionkey masterkey subscriptionkey
    clientsecret accesstoken authtoken bearertoken refreshtoken sessiontoken idtoken creditcard
    cardnumber securitycode passwort passwört kennwort kennwört geheimnis zugangsdaten wachtwoord
    motdepasse motsdepasse contraseña credencial credenzial palavrapasse lösenord adgangskode
    kodeord passord salasana jelszó jelszav katasandi mậtkhẩu парол секрет токен סיסמה كلمةالمرور
    पासवर्ड รหัสผ่าน κωδικόςπρόσβασης 密码 密碼 口令 令牌 密钥 密鑰
    暗証番号 パスワード トークン 비밀번호 암호 토큰
""")
"""A name that contains one of these is that of a credential, however it is cut into words."""
_SECRET = _words("""
    secret token key pass pwd pw auth cookie signature jwt csrf xsrf appid secreto segredo senha
    clave chave mdp jeton şifre parola hasło heslo hesla schlüssel schluessel sleutel ключ
""")
"""One of these as a word of the name, also in the plural, is enough."""
_SHORT = _words("cvc cvv otp pat pin ssn totp")
"""These have other meanings inside a name: they count as its last word, or before a number."""
_NUMBER = _words("code number nr")
_FACT = _words("""
    budget count enabled endpoint expires expiry kind length limit method mode per policy provider
    scheme status through type uri url usage used version
""")
"""Behind a secret word these name a fact about the credential, not its value: `token_type`,
`auth_url`."""
_HARMLESS = {
    "key": _words("""
        cache column foreign group hash hot idempotency issue object order parent partition primary
        project public range routing row short shortcut sort
    """),
    "token": _words("continuation cursor next page pagination sync"),
    "tokens": _words(
        "cached completion context input max maximum min n num number of output prompt reasoning"
        " total"
    ),
}
"""What stands before a word that is not a secret then: `sort_key`, `next_page_token`,
`max_tokens`."""


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is likely a credential."""
    plain = _plain(name[:_LONGEST])
    joined = _BREAKS.sub("", plain).casefold()
    if any(word in joined for word in _ANYWHERE):
        return True
    # Humps begin words (`userToken`), but not where mixed case hides one (`tOkEn`), so both ways to
    # cut are tried.
    by_humps = [word.casefold() for word in _WORD.findall(plain)]
    by_signs = [word for word in _BREAKS.split(plain.casefold()) if word]
    is_glued = any(
        len(word) > 6 and word.removesuffix("s").endswith(("token", "secret")) for word in by_humps
    )
    return is_glued or _has_secret_word(by_humps) or _has_secret_word(by_signs)


def _has_secret_word(words: list[str]) -> bool:
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        singular = word.removesuffix("s")
        if singular in _SHORT:
            if not after or after in _NUMBER or after.isdigit():
                return True
        elif word in _SECRET or singular in _SECRET:
            # `keys` by itself are those of an object, as often as not.
            is_harmless = (
                before in _HARMLESS.get(singular, ())
                or before in _HARMLESS.get(word, ())
                or words == ["keys"]
            )
            if after not in _FACT and not is_harmless:
                return True
    return False
